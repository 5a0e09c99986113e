"""Version of this package; dllm.version() returns that of the library."""
VERSION = "0.2.0"
