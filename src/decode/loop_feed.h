#pragma once
// The arrays of a loop beside those of its window, as loop_graph.h names them.

#include "decode/loop_program.h"
#include "decode/step_feed.h"

namespace dllm::decode {

// limit: steps the loop may take, up to shape.steps.
void add_loop_feed(Batch& feed, const model::ModelConfig& config, const StepSettings& settings,
                   const LoopRule& rule, const LoopShape& shape, std::span<const LoopRow> rows,
                   int64_t limit);

} // namespace dllm::decode
