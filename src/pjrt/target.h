#pragma once
// Hardware to compile for that is not there: its name as people write it, and what its plugin must
// be told.

#include "pjrt/named_values.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::pjrt {

struct Target {
  enum class Maker { tpu, cuda } maker = Maker::tpu;
  std::string text;    // as it was asked for
  std::string chip;    // "v5e", "h100"
  std::string grid;    // tpu: chips, "2x4"
  bool cores = false;  // tpu: a device is a core, not a chip of several
  int64_t devices = 1; // cuda: of one host

  // Two cores of one chip share what libtpu tells as the memory of each.
  int64_t memory_sharers() const { return cores ? 2 : 1; }
  const char* plugin() const { return maker == Maker::tpu ? "tpu" : "cuda"; }
  // Names the topology for the plugin at `path`; may read the plugin's file.
  std::string topology_name() const;
  NamedValues topology_options(const std::string& path) const;
};

// "v5e:2x4", "v4:2x2x4" (a device per chip), "v4:2x2x4/cores" (a device per core), "h100",
// "h100:8", "a100-pcie". Fails with invalid_argument, and a hint that shows names that work.
Target parse_target(std::string_view text);

// What libtpu must be told beside the name; most need nothing.
NamedValues tpu_options(const Target& target);
// The text by which XLA knows a GPU, found in the plugin's own file: "h100" fits "NVIDIA H100 80GB
// HBM3". Of several that fit the one with the fastest memory is taken. Fails with not_found and the
// names there are.
std::string gpu_description(const std::string& path, std::string_view gpu);
// Folder with bin/ptxas and nvvm/libdevice beside the plugin, "" when there is none.
std::string cuda_folder(const std::string& path);
// Has XLA's compiler for GPUs find its tools in that folder, unless the user's XLA_FLAGS name one.
// Fails with failed_precondition when there are none anywhere: some plugins crash then. Call it
// before the plugin is loaded; not while other threads read the environment.
void use_cuda_folder(const std::string& folder);

} // namespace dllm::pjrt
