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

// One line of the record, i32 or the bits of an f32, (steps, places, columns).
struct RecordColumns {
  static constexpr int64_t draw = 0, argmax = 1, draw_prob = 2, max_prob = 3, entropy = 4;
  // Token after the step; -1 where it is masked.
  static constexpr int64_t after = 5, shaped = 6;
  int64_t top_ids, top_probs, count;

  explicit RecordColumns(const StepSettings& settings)
      : top_ids(shaped + (settings.shaped ? 3 : 0)), top_probs(top_ids + settings.top),
        count(top_probs + settings.top) {}
};

// Inputs: those of window_states, and of a block at (row, place in the block):
//   open, eligible u8; place i32, where it is in ids, flat (beyond: nowhere); query i32, the hidden
//   state that predicts it; temperature, top_p f32, top_k i32; uniform, chance f32(steps, rows,
//   block); and of a row: alive u8, carry i32, count i32(steps, rows), level f32(steps, rows),
//   timesteps f32(steps, rows); most_steps i32().
// Outputs: keys, values where cached (in the place of the inputs), then answer: the record, the
// number of steps (rows), 1 for rows whose block goes on (rows), all i32 and flat.
void build_loop(graph::Graph& graph, const model::Model& model, const StepSettings& settings,
                const LoopRule& rule, const LoopShape& shape);

} // namespace dllm::decode
