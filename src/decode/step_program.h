#pragma once
// The model on windows of canvases and the statistics of chosen positions, as one program. Shapes
// are rounded up, counts are data, so a few programs serve all steps of a batch.

#include "decode/prediction_line.h"
#include "decode/program_cache.h"
#include "decode/step_shape.h"
#include "model/model.h"

#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

struct StepSettings {
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

// Keeps the last compiled programs. One call at a time.
class StepProgram {
public:
  StepProgram(std::shared_ptr<model::Model> model, StepSettings settings);
  void set_noise(bool noise); // forgets the programs
  int shift() const { return settings_.shift; }

  // Rows that may share a pass have equal keys.
  static int kind_of(const Ask& ask);

  // Predictions of every row, in the order of its ask.positions. A row's results depend on that row
  // alone. capacity: most positions of any step of this batch, so that its steps share a program.
  // state: where cached rows lie; lost after an exception. A pass that wants no position fills the
  // cache and reads nothing back; least_rows as pass_shape has it.
  std::vector<std::vector<Prediction>> run(std::span<const PassRow> rows, DecodeState& state,
                                           const Weights& weights, int64_t capacity,
                                           const Task* task, int64_t least_rows = 0);

private:
  std::vector<std::vector<Prediction>> predictions(std::span<const PassRow> rows,
                                                   std::span<const graph::BufferRef> outputs) const;

  std::shared_ptr<model::Model> model_;
  StepSettings settings_;
  ProgramCache<StepShape> programs_;
};

} // namespace dllm::decode
