#pragma once
// Names of what decides a compiled program: the same name, the same program. For keys of the
// executable cache.

#include <string>
#include <vector>

namespace dllm::pjrt {

// Everything a compiler looks at. A field that is left empty is part of the key as well.
struct CompileIdentity {
  std::string program;              // StableHLO text
  std::string options;              // serialised CompileOptionsProto
  std::string plugin;               // API version, xla_version, stablehlo versions, as text
  std::string platform;             // name and PJRT_Client_PlatformVersion
  std::string library;              // library_identity(path of the plugin)
  std::vector<std::string> devices; // kinds, in order of the device assignment
  std::string environment;          // compiler_environment() when the plugin was loaded
  std::string host;                 // host_identity(): programs for a CPU use its instructions
};

// 64 hexadecimal digits (SHA-256 over all fields with their lengths).
std::string cache_key(const CompileIdentity& identity);

// The build id of an ELF file and its size; without a build id its size and time of change. Fails
// with not_found.
std::string library_identity(const std::string& path);
// XLA_FLAGS and LIBTPU_INIT_ARGS; plugins read them once, when they are loaded.
std::string compiler_environment();
// Model and instruction sets of this machine's CPU.
std::string host_identity();

} // namespace dllm::pjrt
