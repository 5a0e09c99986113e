#pragma once
// The engine of every PJRT plugin, and the plugins of this machine.

#include "base/json.h"
#include "base/options.h"
#include "comm/mpi/process_ranks.h"
#include "graph/engine.h"

#include <memory>
#include <string>

namespace dllm::pjrt {

// Options of kind "engine". Fails with unavailable when the plugin cannot be loaded or has no
// device, with failed_precondition when it is too old.
std::shared_ptr<graph::Engine> make_engine(const Options& options);
// The same of processes that are connected already: every one of them makes one.
std::shared_ptr<graph::Engine> make_engine(const Options& options, comm::ProcessLink link);

// [{platform, paths, packages, missing}]; loads nothing.
Json list_plugins();
// Loads the plugin (a path or a platform's name): {path, api, attributes}.
Json describe_plugin(const std::string& plugin);

} // namespace dllm::pjrt
