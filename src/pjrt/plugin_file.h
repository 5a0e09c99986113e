#pragma once
// Looking at a plugin's file before it is loaded: loading runs the constructors of whatever is in it.

#include <string>

namespace dllm::pjrt {

// Fails with unavailable, saying what is missing, unless `path` is a regular ELF shared library for
// this machine whose dynamic symbols define `symbol`. Nothing in the file runs.
void check_plugin_file(const std::string& path, const char* symbol);

} // namespace dllm::pjrt
