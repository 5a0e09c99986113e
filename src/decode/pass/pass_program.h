#pragma once
// The model on windows of canvases and the statistics of chosen positions, as one program. Shapes
// are rounded up, counts are data, so a few programs serve all steps of a batch.

#include "decode/cache/decode_state.h"
#include "decode/pass/pass_shape.h"
#include "decode/pass/predictions.h"
#include "model/model.h"
#include "runtime/program_cache.h"
#include "tensor/batch.h"

#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

struct PassSettings {
  int shift = 0;
  std::vector<uint8_t> banned; // (vocab); empty: nothing is
  // (vocab); empty: nothing is. Probability 0, and those of the others as if banned: a draw does
  // not know it.
  std::vector<uint8_t> deferred;
  int64_t top = 1;
  bool shaped = false;
  bool nucleus_first = false;
  int64_t soft_width = 0;
  bool noise = false; // of the slots' draw source

  PredictionColumns columns() const { return {top, shaped}; }
};

// Programs of one kind that a decoder keeps.
constexpr size_t kKeptPrograms = 32;

// The parameters of one version, in the order of the ParamStore.
struct Weights {
  std::vector<graph::BufferRef> buffers;
  int64_t version = 0;
};

// Runs a program once with the weights and the arrays of its inputs' names. cache: null, or the owner of the inputs
// "state:...", which are written in place and are the first outputs. It has them back after a failure too, unless they were half
// written (graph::StateLost); recover() then makes new ones. Outputs as runtime::Arguments::run.
std::vector<graph::BufferRef> run_pass(const std::shared_ptr<graph::Program>& program,
                                       graph::Engine& engine, const Weights& weights,
                                       const Batch& arrays, DecodeState* cache, const Task* task);

// Keeps the last compiled programs. One call at a time.
class PassProgram {
public:
  PassProgram(std::shared_ptr<model::Model> model, PassSettings settings);
  void set_noise(bool noise); // forgets the programs
  int shift() const { return settings_.shift; }

  // Rows that may share a pass have equal keys.
  static int kind_of(const PassRequest& pass);

  // Predictions of every row, in the order of its pass.positions. A row's results depend on that row
  // alone. capacity: most positions of any step of this batch, so that its steps share a program.
  // state: where cached rows lie; lost after an exception. A pass that wants no position fills the
  // cache and reads nothing back; least_rows as pass_shape has it.
  std::vector<std::vector<Prediction>> run(std::span<const PassRow> rows, DecodeState& state,
                                           const Weights& weights, int64_t capacity,
                                           const Task* task, int64_t least_rows = 0);
  // Positions of all programs that ran, padding included.
  int64_t computed() const { return computed_; }

private:
  std::vector<std::vector<Prediction>> predictions(std::span<const PassRow> rows,
                                                   std::span<const graph::BufferRef> outputs) const;

  std::shared_ptr<model::Model> model_;
  PassSettings settings_;
  int64_t computed_ = 0;
  runtime::ProgramCache<PassShape> programs_{kKeptPrograms};
};

} // namespace dllm::decode
