#pragma once
// Fused operations as graphs of primitives that suit a compiler which fuses elementwise work by
// itself: nothing as large as a table of scores or logits is ever held whole.

#include "graph/graph.h"

#include <memory>

namespace dllm::pjrt {

// The same inputs and outputs (names, order, donation); only operations without a definition
// remain, in the bodies of scan and while too.
std::shared_ptr<const graph::Graph> lower(const graph::Graph& source);

} // namespace dllm::pjrt
