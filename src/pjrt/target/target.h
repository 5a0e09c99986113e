#pragma once
// Hardware to compile for that is not there: its names, what its plugin must be given, its engine.

#include "base/options.h"
#include "graph/engine.h"
#include "pjrt/plugin/plugin.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace dllm::pjrt {

struct Target {
  enum class Maker { tpu, cuda } maker = Maker::tpu;
  std::string text;    // as given
  std::string chip;    // "v5e", "h100"
  std::string grid;    // tpu: chips, "2x4"
  bool cores = false;  // tpu: a device is a core, not a chip of several
  int64_t devices = 1; // cuda: of one host

  // Two cores of one chip share what libtpu reports as the memory of each.
  int64_t memory_sharers() const { return cores ? 2 : 1; }
  const char* plugin() const { return maker == Maker::tpu ? "tpu" : "cuda"; }
  // Names the topology for the plugin at `path`; may read the plugin's file.
  std::string topology_name() const;
  NamedValues topology_options(const std::string& path) const;
};

// "v5e:2x4", "v4:2x2x4" (a device per chip), "v4:2x2x4/cores" (a device per core), "h100",
// "h100:8", "a100-pcie". Fails with invalid_argument, and a hint that shows names that work.
Target parse_target(std::string_view text);

// Options that libtpu needs besides the name; most need none.
NamedValues tpu_options(const Target& target);
// The text that XLA uses for a GPU, found in the plugin's own file: "h100" fits "NVIDIA H100 80GB
// HBM3". Of several that fit the one with the fastest memory is taken. Fails with not_found and the
// names there are.
std::string gpu_description(const std::string& path, std::string_view gpu);
// Folder with bin/ptxas and nvvm/libdevice near the plugin, "" when there is none.
std::string cuda_folder(const std::string& path);
// Has XLA's compiler for GPUs find its tools in that folder, unless the user's XLA_FLAGS name one.
// Fails with failed_precondition when there are none anywhere: some plugins crash then. Call it
// before the plugin is loaded; not while other threads read the environment.
void use_cuda_folder(const std::string& folder);

// Option target is set; option plugin may name another plugin than the target's own. Fails with
// not_found when the plugin is absent, with invalid_argument for hardware that has no such name.
std::shared_ptr<graph::Engine> make_target_engine(const Options& options);

// The message of a compiler for a program that is too big, with its numbers in front: "does not fit:
// needs 68719476736 bytes, has 16911433728 bytes: ...". A text without numbers stays as it is.
std::string explain_no_room(const std::string& text);

} // namespace dllm::pjrt
