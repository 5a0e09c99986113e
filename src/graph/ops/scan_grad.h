#pragma once
// The gradient of scan: a scan in the other direction.

#include "graph/op.h"

#include <vector>

namespace dllm::graph::ops {

std::vector<Value> scan_vjp(const VjpCall& call);

} // namespace dllm::graph::ops
