#pragma once
// The program of a pass; its inputs are those of step_feed.h, by name.

#include "decode/step_program.h"
#include "graph/graph.h"

namespace dllm::decode {

// Outputs: the stacks of the state (cached passes only, in the place of the inputs), then answer, a line of
// numbers per wanted position (prediction_line.h), and rest where tokens are deferred. No answer
// where the shape's capacity is 0.
void build_step(graph::Graph& graph, const model::Model& model, const StepSettings& settings,
                const StepShape& shape);

} // namespace dllm::decode
