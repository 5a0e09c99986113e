#pragma once
// The loop program runs the steps of all rows' blocks in one launch. It ends when no row is alive
// or the step limit is reached. It does not wait for the host, which replays the record afterwards.

#include "decode/pass/pass_program.h"
#include "decode/pass/shares.h"
#include "decode/request/policy.h"
#include "graph/graph.h"

#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

struct LoopShape {
  PassShape pass; // its capacity is rows * block
  int64_t block;  // positions of a block
  int64_t steps;  // most steps in one run

  int64_t places() const { return pass.rows * block; }
  friend bool operator==(const LoopShape&, const LoopShape&) = default;
};

// The record is (steps, places, columns). A line holds a prediction, then the token after the step,
// which is -1 where the position is open.
inline int64_t record_columns(const PredictionNeeds& needs) {
  return PredictionColumns(needs).count + 1;
}

// Builds the loop. Its inputs are the inputs of window_states, and
//   u8(rows, block): open, eligible
//   i32(rows, block): place, the flat index into ids (beyond the end: no position); query, the row
//     of the hidden state that predicts the position
//   (rows, block): temperature, f32, and the settings of the filters of the program
//   f32(steps, rows, block): uniform, chance
//   u8(rows): alive
//   i32(rows): carry
//   i32(steps, rows): count
//   f32(steps, rows): level, timesteps
//   i32(): most_steps
// Outputs are the stacks of the state if the pass is cached (written in place), then `answer`,
// which is i32 and flat. For every share of the mesh (pass/shares.h) it holds three arrays. They
// are the record, the number of steps (rows), and (rows) 1 where the block is not over.
void build_loop(graph::Graph& graph, const model::Model& model, const LoopRule& rule,
                const LoopShape& shape);

// One request in a loop. plan.pass.kind is step, and the window needs no earlier pass to fill the
// cache.
struct LoopRow {
  const Request* request;
  const LoopPlan* plan;
  const Session* session;
  int64_t cache_row = -1;
};

// The record of a run: what happened in each step. The host replays it.
class LoopRecord {
public:
  LoopRecord(const PassSettings& settings, const LoopShape& shape, PassShares shares,
             Tensor answer);

  int64_t steps(int64_t row) const; // steps that the row took
  int64_t most_steps() const;       // largest number of steps of a row
  bool goes_on(int64_t row) const;  // whether the block was not over when the loop ended
  // place: index in the block. Positions that were not wanted in this step hold zeros.
  Prediction prediction(int64_t step, int64_t row, int64_t place, int64_t position) const;
  // Returns the token after the step; -1: the position is open.
  int32_t after(int64_t step, int64_t row, int64_t place) const;
  // Returns the number of positions that the run computed, padding included.
  int64_t computed() const { return shares_.count() * most_steps() * shape_.pass.positions(); }
  const std::vector<uint8_t>& banned() const { return settings_.banned; }

private:
  std::span<const int32_t> answer_of(int64_t row) const; // the answer of the row's share
  int64_t place_of(int64_t row) const { return shares_.places()[static_cast<size_t>(row)].row; }
  std::span<const int32_t> line(int64_t step, int64_t row, int64_t place) const;

  PassSettings settings_;
  LoopShape shape_;
  PassShares shares_;
  Tensor answer_;
};

// Returns the shape of a loop over the rows of a pass. `block` and `steps` are the largest of any
// row and are rounded up. The number of steps is smaller if the record would be too large.
LoopShape loop_shape(const PassShape& pass, const PassSettings& settings, int64_t block,
                     int64_t steps);

// Runs loops and keeps the last compiled programs. One call at a time.
class LoopProgram {
public:
  LoopProgram(std::shared_ptr<model::Model> model, PassSettings settings,
              std::unique_ptr<LoopRule> rule);

  // Takes at most `limit` steps, and fewer if the record would be too large. `least_rows` is as in
  // pass_shape. After an exception the contents of `state` are lost.
  LoopRecord run(std::span<const LoopRow> rows, DecodeState& state, const Weights& weights,
                 int64_t limit, int64_t least_rows, const Task* task);

private:
  LoopShape shape_of(std::span<const LoopRow> rows, std::span<const PassRow> passes,
                     const PassShares& shares, const DecodeState& state, const Weights& weights,
                     int64_t least_rows) const;

  std::shared_ptr<model::Model> model_;
  PassSettings settings_;
  std::unique_ptr<LoopRule> rule_;
  runtime::ProgramCache<LoopShape> programs_{kKeptPrograms};
};

// Sets the inputs of the loop that window_states does not have. limit: steps that the loop may
// take, at most shape.steps.
void add_loop_feed(Batch& feed, const model::ModelConfig& config, const PassSettings& settings,
                   const LoopRule& rule, const LoopShape& shape, std::span<const LoopRow> rows,
                   int64_t limit);

} // namespace dllm::decode
