#pragma once
// Where a run takes its batches from. text/loader is one; tests and scripts have others.

#include "tensor/batch.h"

#include <cstdint>
#include <optional>

namespace dllm::train {

// One call at a time.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  virtual std::optional<Batch> next() = 0; // nothing at the end of the data
  virtual int64_t position() const = 0;    // batches taken since the start, over all epochs
  virtual void seek(int64_t position) = 0; // fails with out_of_range past the end
  // Of the text behind the tokens, on average; 0: not known.
  virtual double bytes_per_token() const { return 0; }
};

} // namespace dllm::train
