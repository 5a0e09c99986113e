#pragma once
// The program of a loop: denoising steps of all rows' blocks one after the other, until no row is
// alive or so many steps are taken. Nothing in it waits for the host.

#include "decode/loop_rule.h"
#include "decode/step_program.h"
#include "graph/graph.h"

namespace dllm::decode {

struct LoopShape {
  StepShape pass; // capacity: rows * block
  int64_t block;  // positions
  int64_t steps;  // most in one run

  int64_t places() const { return pass.rows * block; }
  friend bool operator==(const LoopShape&, const LoopShape&) = default;
};

// A line of the record, (steps, places, columns): a prediction, then the token after the step, -1
// where it is masked.
inline int64_t record_columns(const StepSettings& settings) {
  return settings.columns().count + 1;
}

// Inputs: those of window_states, and of a block at (row, place in the block):
//   open, eligible u8; place i32, where it is in ids, flat (beyond: nowhere); query i32, the hidden
//   state that predicts it; temperature, top_p f32, top_k i32; uniform, chance f32(steps, rows,
//   block); and of a row: alive u8, carry i32, count i32(steps, rows), level f32(steps, rows),
//   timesteps f32(steps, rows); most_steps i32().
// Outputs: the stacks of the state where cached (in the place of the inputs), then answer: the record, the
// number of steps (rows), 1 for rows whose block goes on (rows), all i32 and flat.
void build_loop(graph::Graph& graph, const model::Model& model, const StepSettings& settings,
                const LoopRule& rule, const LoopShape& shape);

} // namespace dllm::decode
