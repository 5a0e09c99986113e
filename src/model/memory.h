#pragma once
// Whether the parameters of a config fit, before any memory is taken for them.

#include "graph/engine.h"
#include "model/param_map.h"
#include "tensor/weight_format.h"

#include <functional>
#include <vector>

namespace dllm::model {

// form_of: the format a stack is kept in. resource_exhausted with the sum and the largest stacks when it is above the
// engine's memory_limit or the machine's memory.
void check_memory(const graph::Engine& engine, const std::vector<ParamSpec>& specs,
                  const std::function<const WeightFormat&(const ParamSpec&)>& form_of);

}  // namespace dllm::model
