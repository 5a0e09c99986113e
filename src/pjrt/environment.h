#pragma once
// Variables that plugins read while they are loaded.

#include <string>

namespace dllm::pjrt {

// Sets what a plugin should find unless the user set it: less logging, no question to a metadata
// server that is not there, and, for compile_only, no lock on chips. Call before the plugin is
// loaded; not while other threads read the environment.
void prepare_environment(bool compile_only);

// True when a TPU sits on this machine's PCI bus; `root` is a seam for tests.
bool has_tpu(const std::string& root = "/sys/bus/pci/devices");

} // namespace dllm::pjrt
