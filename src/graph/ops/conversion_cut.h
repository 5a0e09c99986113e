#pragma once
// Why a value has no gradient: a conversion to whole numbers lies between it and the loss.

#include "graph/graph.h"

#include <string>

namespace dllm::graph::ops {

// The conversion, as "[convert] to i8(4, 3)", when `loss` depends on `x` through one and gradients
// pass everywhere else on the way; "" when there is no such way. Operations that decide (argmax,
// comparisons, indices of top_k) are no way.
std::string cut_by_conversion(const Graph& graph, Value x, Value loss);

} // namespace dllm::graph::ops
