#pragma once
// A Target names hardware to compile for that this machine does not have. It has an engine that
// compiles and plans, and cannot run.

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
  std::string text;    // the text that was parsed
  std::string chip;    // "v5e", "h100"
  std::string grid;    // tpu: extents of the grid of chips, "2x4"
  bool cores = false;  // tpu: a device is one core of a chip, not the chip
  int64_t devices = 1; // cuda: number of devices of one host

  // Returns how many devices share the memory that libtpu reports for each (the cores of a chip).
  int64_t memory_sharers() const { return cores ? 2 : 1; }
  const char* plugin() const { return maker == Maker::tpu ? "tpu" : "cuda"; }
  // Return the name and options of the topology for the plugin at `path`. topology_options() may
  // read the plugin's file.
  std::string topology_name() const;
  NamedValues topology_options(const std::string& path) const;
};

// Parses "v5e:2x4", "v4:2x2x4" (a device per chip), "v4:2x2x4/cores" (a device per core), "h100",
// "h100:8", "a100-pcie". Fails with invalid_argument and a hint that shows valid names.
Target parse_target(std::string_view text);

// Returns the options that libtpu needs in addition to the name; empty for most targets.
NamedValues tpu_options(const Target& target);
// Returns XLA's description of a GPU, which it finds in the plugin's own file: "h100" matches a
// description with the name "NVIDIA H100 80GB HBM3". Takes the one with the fastest memory if
// several match. Fails with not_found and the names that exist.
std::string gpu_description(const std::string& path, std::string_view gpu);
// Returns the folder near the plugin that holds bin/ptxas and nvvm/libdevice, or "".
std::string cuda_folder(const std::string& path);
// Makes XLA's compiler for GPUs find its tools in `folder`, unless XLA_FLAGS name another one.
// Fails with failed_precondition when there are no tools anywhere, because some plugins would
// crash. REQUIRES: the plugin is not loaded yet, and no other thread reads the environment.
void use_cuda_folder(const std::string& folder);

// Makes an engine for the hardware of option target. Option plugin may name another plugin than the
// target's own. Fails with not_found when the plugin is absent, with invalid_argument for a target
// that does not exist.
std::shared_ptr<graph::Engine> make_target_engine(const Options& options);

// Puts the sizes before a compiler's message about a program that is too big: "does not fit: needs
// 68719476736 bytes, has 16911433728 bytes: ...". Returns a message without sizes unchanged.
std::string explain_no_room(const std::string& text);

} // namespace dllm::pjrt
