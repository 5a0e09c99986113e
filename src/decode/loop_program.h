#pragma once
// The steps of all rows' blocks as one run of one program: one trip to the engine and back a block.

#include "decode/loop_graph.h"
#include "decode/loop_plan.h"
#include "decode/policy.h"
#include "decode/step_program.h"

#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

// One request in a loop. plan.ask.pass is step, and its window holds nothing to fill first.
struct LoopRow {
  const Slot* slot;
  const LoopAsk* plan;
  const Session* session;
  int64_t cache_row = -1;
};

// What happened in a loop, step by step; the host replays it.
class LoopRecord {
public:
  LoopRecord(const StepSettings& settings, const LoopShape& shape, Tensor answer);

  int64_t steps(int64_t row) const; // taken by the row
  int64_t most_steps() const;       // of all rows
  bool goes_on(int64_t row) const;  // its block was not over when the loop ended
  // place: in the block. Positions that were not wanted in this step hold zeros.
  Prediction prediction(int64_t step, int64_t row, int64_t place, int64_t position) const;
  int32_t after(int64_t step, int64_t row, int64_t place) const; // token, -1: masked
  int64_t computed() const { return most_steps() * shape_.pass.positions(); } // padding included
  const std::vector<uint8_t>& banned() const { return settings_.banned; }

private:
  std::span<const int32_t> line(int64_t step, int64_t row, int64_t place) const;

  StepSettings settings_;
  LoopShape shape_;
  Tensor answer_;
};

// Of a pass over the rows: blocks of so many positions, most steps of any.
LoopShape loop_shape(const StepShape& pass, const StepSettings& settings, int64_t block,
                     int64_t steps);

// Keeps the last compiled programs. One call at a time.
class LoopProgram {
public:
  LoopProgram(std::shared_ptr<model::Model> model, StepSettings settings,
              std::unique_ptr<LoopRule> rule);

  // At most `limit` steps; fewer where the record would be too large. least_rows as pass_shape has
  // it. state: lost after an exception.
  LoopRecord run(std::span<const LoopRow> rows, DecodeState& state, const Weights& weights,
                 int64_t limit, int64_t least_rows, const Task* task);

private:
  LoopShape shape_of(std::span<const LoopRow> rows, std::span<const PassRow> passes,
                     const DecodeState& state, int64_t least_rows) const;

  std::shared_ptr<model::Model> model_;
  StepSettings settings_;
  std::unique_ptr<LoopRule> rule_;
  runtime::ProgramCache<LoopShape> programs_{kKeptPrograms};
};

} // namespace dllm::decode
