"""Version of this package; the library it loads tells its own with dllm.version()."""
VERSION = "0.1.0"
