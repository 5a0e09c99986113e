#pragma once
// What is known of a compiled graph before it runs.

#include "graph/engine.h"
#include "pjrt/engine_state.h"

namespace dllm::pjrt {

// What the compiler tells of its program; seconds, from_cache and device_bytes are the caller's.
graph::CompiledReport compiler_report(const Compiled& compiled);
// Our own count of inputs and outputs, without a device's padding; the compiler's of the rest.
graph::PlanReport make_report(const graph::Graph& source, graph::CompiledReport compiled);
graph::PlanReport make_report(const graph::Graph& source, const Built& built, const Device& device);

// State must change in place: fails with internal when the compiler took over fewer bytes than the
// graph gives up, which would cost the memory of all parameters again. Plugins that tell nothing
// are believed.
void check_aliases(const graph::Graph& source, const graph::CompiledReport& compiled);

} // namespace dllm::pjrt
