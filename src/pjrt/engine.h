#pragma once
// An engine of kind pjrt compiles and runs graphs through any PJRT plugin. The plugins of this
// machine can be listed.

#include "base/json.h"
#include "base/options.h"
#include "comm/mpi/process_ranks.h"
#include "graph/engine.h"

#include <memory>
#include <string>

namespace dllm::pjrt {

// Makes an engine from options of kind "engine". Fails with unavailable when the plugin cannot be
// loaded or has no device, with failed_precondition when it is too old.
std::shared_ptr<graph::Engine> make_engine(const Options& options);
// Makes the engine of one of several processes that `link` connects. Every process must call it.
std::shared_ptr<graph::Engine> make_engine(const Options& options, comm::ProcessLink link);

// Returns [{platform, paths, packages, missing}] and loads nothing.
Json list_plugins();
// Loads the plugin (a path or a platform's name) and returns {path, api, stablehlo, attributes}.
Json describe_plugin(const std::string& plugin);

} // namespace dllm::pjrt
