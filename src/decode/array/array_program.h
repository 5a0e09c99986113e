#pragma once
// The array program takes the steps of a policy over arrays, many in one launch. It does not wait
// for the host, which replays the record afterwards.

#include "decode/array/array_policy.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/pass_program.h"
#include "decode/pass/shares.h"
#include "graph/graph.h"
#include "model/model.h"
#include "runtime/programs.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

struct ArrayShape {
  PassShape pass; // its capacity is rows * window
  int64_t width;  // numbers of a position
  int64_t steps;  // most steps in one run

  int64_t places() const { return pass.rows * pass.window; }
  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;
};

// Returns the shape of a run over the rows of a pass. The number of steps is rounded up, and it is
// smaller if the record would be too large.
ArrayShape array_shape(const PassShape& pass, const PassSettings& settings, int64_t width,
                       int64_t steps);

// Builds the loop. It has the inputs of window_states, and
//   f32(rows, window, width): array; u8(rows, window): given
//   (places): temperature, f32, and the settings of the filters of the program
//   f32(steps, places): uniform
//   f32(steps, 6, rows): levels, which are time, signal, sigma before a step and after it
//   u8(steps, rows): alive, 1 for rows that take the step
//   f32(steps, rows, window, width): noise, if the solver uses it
//   i32(): most_steps
// Outputs, for every share of the mesh (pass/shares.h):
//   lines, i32(steps, places, columns): the predictions of every step (pass/pass.h)
//   arrays, f32(steps, places, width): the array after every step
void build_array_loop(graph::Graph& graph, const model::Model& model, const ArrayRule& rule,
                      const ArrayShape& shape);

// One request in a run.
struct ArrayRow {
  const Request* request;
  const PassRequest* pass;
  const ArraySession* session;
};

// The record of a run: the predictions and the array of every step.
class ArrayRecord {
public:
  // steps: steps that the run took.
  ArrayRecord(const PredictionNeeds& needs, const ArrayShape& shape, PassShares shares,
              Tensor lines, Tensor arrays, int64_t steps);

  int64_t steps() const { return steps_; }
  Prediction prediction(int64_t step, int64_t row, int64_t position) const;
  // Returns the array of the first `length` positions of a row after a step.
  std::vector<float> array(int64_t step, int64_t row, int64_t length) const;
  // Returns the number of positions that the run computed, padding included.
  int64_t computed() const { return shares_.count() * steps_ * shape_.places(); }

private:
  size_t place(int64_t step, int64_t row) const; // the first place of the row in a step

  PredictionNeeds needs_;
  ArrayShape shape_;
  PassShares shares_;
  Tensor lines_, arrays_;
  int64_t steps_;
};

// Runs such programs and keeps the last compiled ones. One call at a time.
class ArrayProgram {
public:
  ArrayProgram(std::shared_ptr<model::Model> model, const PassSettings& settings,
               const ArrayRule& rule);

  // Takes at most `limit` steps, and fewer if the record would be too large. The steps of a row end
  // when none is left. Keeps no cache: `state` only cuts the rows over a mesh.
  ArrayRecord run(std::span<const ArrayRow> rows, const DecodeState& state, const Weights& weights,
                  int64_t limit, const Task* task);

private:
  std::shared_ptr<model::Model> model_;
  PassSettings settings_;
  const ArrayRule& rule_;
  runtime::ProgramCache<ArrayShape> programs_{kKeptPrograms};
};

} // namespace dllm::decode
