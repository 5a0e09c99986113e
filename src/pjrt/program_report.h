#pragma once
// What is known of a compiled graph before it runs.

#include "graph/engine.h"
#include "pjrt/engine_state.h"

namespace dllm::pjrt {

// Our own count of inputs and outputs, the compiler's of everything else.
graph::PlanReport make_report(const graph::Graph& source, const Built& built, const Device& device);

// State must change in place: fails with internal when the compiler took over fewer bytes than the
// graph gives up, which would cost the memory of all parameters again. Plugins that tell nothing
// are believed.
void check_aliases(const graph::Graph& source, const graph::CompiledReport& compiled);

} // namespace dllm::pjrt
