"""Version of this package; dllm.version() returns that of the library."""
VERSION = "0.1.0"
