#pragma once
// The program of a pass; its inputs are those of step_feed.h, by name.

#include "decode/step_program.h"
#include "graph/graph.h"

namespace dllm::decode {

// Outputs: keys, values (cached passes only, in the place of the inputs), then draw, draw_prob,
// argmax, max_prob, entropy, shaped_prob, shaped_margin, shaped_entropy, top_ids, top_probs, and
// rest where tokens are deferred.
void build_step(graph::Graph& graph, const model::Model& model, const StepSettings& settings,
                const StepShape& shape);

} // namespace dllm::decode
