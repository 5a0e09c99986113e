#pragma once
// The steps of all rows' blocks as one run of one program, until no row is alive or so many steps are taken: one trip to the
// engine and back for a block. Nothing in the program waits for the host, which replays the record.

#include "decode/pass/pass_program.h"
#include "decode/pass/shares.h"
#include "decode/request/policy.h"
#include "graph/graph.h"

#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

struct LoopShape {
  PassShape pass; // capacity: rows * block
  int64_t block;  // positions
  int64_t steps;  // most in one run

  int64_t places() const { return pass.rows * block; }
  friend bool operator==(const LoopShape&, const LoopShape&) = default;
};

// A line of the record, (steps, places, columns): a prediction, then the token after the step, -1
// where it is masked.
inline int64_t record_columns(const PredictionNeeds& needs) {
  return PredictionColumns(needs).count + 1;
}

// Inputs: those of window_states, and of a block at (row, place in the block):
//   open, eligible u8; place i32, where it is in ids, flat (beyond: nowhere); query i32, the hidden
//   state that predicts it; temperature, top_p f32, top_k i32; uniform, chance f32(steps, rows,
//   block); and of a row: alive u8, carry i32, count i32(steps, rows), level f32(steps, rows),
//   timesteps f32(steps, rows); most_steps i32().
// Outputs: keys, values where cached (in the place of the inputs), then answer: of every share of the
// mesh (pass/shares.h) the record, the number of steps (rows), 1 for rows whose block goes on (rows), all
// i32 and flat.
void build_loop(graph::Graph& graph, const model::Model& model, const LoopRule& rule,
                const LoopShape& shape);

// One request in a loop. plan.pass.kind is step, and its window holds nothing to fill first.
struct LoopRow {
  const Request* request;
  const LoopPlan* plan;
  const Session* session;
  int64_t cache_row = -1;
};

// What happened in a loop, step by step; the host replays it.
class LoopRecord {
public:
  LoopRecord(const PassSettings& settings, const LoopShape& shape, PassShares shares,
             Tensor answer);

  int64_t steps(int64_t row) const; // taken by the row
  int64_t most_steps() const;       // of all rows
  bool goes_on(int64_t row) const;  // its block was not over when the loop ended
  // place: in the block. Positions that were not wanted in this step hold zeros.
  Prediction prediction(int64_t step, int64_t row, int64_t place, int64_t position) const;
  int32_t after(int64_t step, int64_t row, int64_t place) const; // token, -1: masked
  // Padding included.
  int64_t computed() const { return shares_.count() * most_steps() * shape_.pass.positions(); }
  const std::vector<uint8_t>& banned() const { return settings_.banned; }

private:
  std::span<const int32_t> answer_of(int64_t row) const; // of its share
  int64_t place_of(int64_t row) const { return shares_.places()[static_cast<size_t>(row)].row; }
  std::span<const int32_t> line(int64_t step, int64_t row, int64_t place) const;

  PassSettings settings_;
  LoopShape shape_;
  PassShares shares_;
  Tensor answer_;
};

// Of a pass over the rows: blocks of so many positions, most steps of any.
LoopShape loop_shape(const PassShape& pass, const PassSettings& settings, int64_t block,
                     int64_t steps);

// Keeps the last compiled programs. One call at a time.
class LoopProgram {
public:
  LoopProgram(std::shared_ptr<model::Model> model, PassSettings settings,
              std::unique_ptr<LoopRule> rule);

  // At most `limit` steps; fewer where the record would be too large. least_rows as pass_shape has
  // it. state: lost after an exception.
  LoopRecord run(std::span<const LoopRow> rows, DecodeState& state, const Weights& weights,
                 int64_t limit, int64_t least_rows, const Task* task);

private:
  LoopShape shape_of(std::span<const LoopRow> rows, std::span<const PassRow> passes,
                     const PassShares& shares, const DecodeState& state, int64_t least_rows) const;

  std::shared_ptr<model::Model> model_;
  PassSettings settings_;
  std::unique_ptr<LoopRule> rule_;
  runtime::ProgramCache<LoopShape> programs_{kKeptPrograms};
};

// limit: steps the loop may take, up to shape.steps.
void add_loop_feed(Batch& feed, const model::ModelConfig& config, const PassSettings& settings,
                   const LoopRule& rule, const LoopShape& shape, std::span<const LoopRow> rows,
                   int64_t limit);

} // namespace dllm::decode
