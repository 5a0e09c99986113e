#pragma once
// The model on windows of canvases and the statistics of chosen positions, as one program. Shapes
// are rounded up, counts are data, so a few programs serve all steps of a batch.

#include "decode/ask.h"
#include "decode/decode_state.h"
#include "decode/slot.h"
#include "model/builder.h"

#include <list>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

// One request in a pass.
struct PassRow {
  const Slot* slot;
  const Ask* ask;
  int64_t cache_row = -1; // in the decode state; -1: not cached
};

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
};

// What makes two passes the same program. Everything else is data.
struct StepShape {
  int64_t rows, window; // positions
  int64_t capacity;     // of the positions whose predictions are wanted
  int64_t keys;         // of attention in a cached pass; 0: not cached
  int64_t cache_rows;   // of one layer in the state's buffers
  bool guided, soft;

  // A guided pass holds every row twice.
  int64_t all_rows() const { return guided ? 2 * rows : rows; }
  friend bool operator==(const StepShape&, const StepShape&) = default;
};

// Of a cache that cached rows lie in.
struct CacheShape {
  int64_t rows = 0, capacity = 0;
};
StepShape step_shape(const model::ModelConfig& config, std::span<const PassRow> rows,
                     const CacheShape& cache, int64_t capacity);

// Keeps the last compiled programs. One call at a time.
class StepProgram {
public:
  StepProgram(std::shared_ptr<model::Model> model, StepSettings settings);
  ~StepProgram();
  void set_noise(bool noise); // forgets the programs

  // Rows that may share a pass have equal keys.
  static int kind_of(const Ask& ask);

  // Predictions of every row, in the order of its ask.positions. A row's results depend on that row
  // alone. capacity: most positions of any step of this batch, so that its steps share a program.
  // state: where cached rows lie; lost after an exception.
  std::vector<std::vector<Prediction>> run(std::span<const PassRow> rows, DecodeState& state,
                                           int64_t capacity, const Task* task);

private:
  struct Entry;
  Entry& compiled(const StepShape& shape);

  std::shared_ptr<model::Model> model_;
  StepSettings settings_;
  std::list<std::unique_ptr<Entry>> programs_; // most recently used first
};

} // namespace dllm::decode
