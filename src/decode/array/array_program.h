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

// What a run reads as text. A run that ends no row and is not watched reads none.
enum class ArrayTexts {
  none,
  last, // of the last step of every row
  all   // of every step
};

struct ArrayShape {
  PassShape pass;        // its capacity is rows * window
  int64_t length = 0;    // rows of the array of one request
  int64_t width = 0;     // numbers of one of these rows
  int64_t states = 0;    // ArrayRule::states_width
  int64_t steps = 1;     // most steps in one run
  int64_t texts = 0;     // steps whose text is read, after the loop: 0, 1 or `steps`
  bool previous = false; // ArrayPolicy::keeps_previous
  bool blocks = false;   // ArrayRule::block_length is not 0

  int64_t places() const { return pass.rows * pass.window; }
  int64_t array_rows() const { return pass.rows * length; }
  // Returns rows and width of what ArrayRule::read reads of a step.
  int64_t read_rows() const { return states > 0 ? places() : array_rows(); }
  int64_t read_width() const { return states > 0 ? states : width; }
  // Numbers of the arrays of all steps.
  int64_t record() const { return steps * array_rows() * width; }
  // Records before the lines of an answer: the arrays, and the clean arrays if they are kept.
  int64_t records() const { return previous ? 2 : 1; }
  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;
};

// Returns the shape of a run over the rows of a pass. The number of steps is rounded up, and it is
// smaller if the record would be too large.
ArrayShape array_shape(const PassShape& pass, const PassSettings& settings,
                       const ArrayPolicy& policy, const model::ModelConfig& config, int64_t steps,
                       ArrayTexts texts);

// Builds the loop, and the text of its steps after it. It has the inputs of window_states, and
//   f32(rows, length, width): array, and previous if the policy keeps it
//   u8(all rows, window): given
//   (texts * places): temperature and uniform, f32, and the settings of the filters of the program
//   f32(steps, 10, rows): levels, which are time, signal, sigma before a step, after it, and before
//     the step before; then 1 if there was such a step, else 0
//   u8(steps, rows): alive, 1 for rows that take the step
//   f32(steps, rows, length, width): noise, if the solver uses it
//   f32(rows): guidance, if the pass is guided
//   i32(rows): block_begin and block_end, for rules in blocks
//   i32(): most_steps
// The output `answer` is i32 and flat, with f32 numbers by their bits. For every share of the mesh
// (pass/shares.h) it holds
//   (steps, array_rows, width): the array after every step
//   (steps, array_rows, width), if the policy keeps it: the clean array of every step
//   (texts, places, columns): the predictions (pass/pass.h)
void build_array_loop(graph::Graph& graph, const model::Model& model, const ArrayPolicy& policy,
                      const ArrayShape& shape);

// One request in a run.
struct ArrayRow {
  const Request* request;
  const PassRequest* pass;
  const ArraySession* session;
};

// The record of a run: the array of every step, and the texts that were read.
class ArrayRecord {
public:
  // steps: steps that the run took. ends: the last of them in which each row took its last step;
  // -1: steps of the row are left.
  ArrayRecord(const PredictionNeeds& needs, const ArrayShape& shape, ArrayTexts texts,
              PassShares shares, Tensor answer, int64_t steps, std::vector<int64_t> ends);

  int64_t steps() const { return steps_; }
  // Returns whether the text of a step was read.
  bool has_text(int64_t step, int64_t row) const;
  // REQUIRES: has_text(step, row)
  Prediction prediction(int64_t step, int64_t row, int64_t position) const;
  // Returns the first `count` numbers of a row's array after a step.
  std::vector<float> array(int64_t step, int64_t row, size_t count) const;
  // Returns the same of its clean array; empty: the policy does not keep it.
  std::vector<float> previous(int64_t step, int64_t row, size_t count) const;
  // Returns the number of positions that the run computed, padding included.
  int64_t computed() const { return shares_.count() * steps_ * shape_.pass.positions(); }

private:
  // Returns the answer of the row's share from number `first` on.
  std::span<const int32_t> answer_at(int64_t row, int64_t first) const;
  // record: 0: the arrays, 1: the clean arrays.
  std::vector<float> numbers(int64_t record, int64_t step, int64_t row, size_t count) const;
  const RowPlace& place(int64_t row) const { return shares_.places()[static_cast<size_t>(row)]; }

  PredictionNeeds needs_;
  ArrayShape shape_;
  ArrayTexts texts_;
  PassShares shares_;
  Tensor answer_;
  int64_t steps_;
  std::vector<int64_t> ends_;
};

// Runs such programs and keeps the last compiled ones. One call at a time.
class ArrayProgram {
public:
  ArrayProgram(std::shared_ptr<model::Model> model, const PassSettings& settings,
               const ArrayPolicy& policy);

  // Takes at most `limit` steps, and fewer if the record would be too large. The steps of a row end
  // when none is left. Keeps no cache: `state` only cuts the rows over a mesh. watched: the text of
  // every step is read, else that of the last step of each row.
  ArrayRecord run(std::span<const ArrayRow> rows, const DecodeState& state, const Weights& weights,
                  int64_t limit, bool watched, const Task* task);

private:
  std::shared_ptr<model::Model> model_;
  PassSettings settings_;
  const ArrayPolicy& policy_;
  runtime::ProgramCache<ArrayShape> programs_{kKeptPrograms};
};

} // namespace dllm::decode
