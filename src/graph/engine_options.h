#pragma once
// The options every engine is made from; an engine reads the keys of its kind.

#include "base/options.h"

namespace dllm::graph {

const Schema& engine_schema(); // "engine"

} // namespace dllm::graph
