#pragma once
// The engine of every PJRT plugin: graphs become StableHLO text, the plugin's compiler makes
// programs of them.

#include "base/options.h"
#include "graph/engine.h"

#include <memory>

namespace dllm::pjrt {

// Options of kind "engine". Fails with unavailable when the plugin cannot be loaded or has no
// device, with failed_precondition when it is too old.
std::shared_ptr<graph::Engine> make_engine(const Options& options);

} // namespace dllm::pjrt
