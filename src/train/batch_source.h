#pragma once
// Where a run takes its batches from: a loader over a dataset, or what a test makes.

#include "tensor/batch.h"
#include "text/loader.h"

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

// The loader outlives it.
class LoaderSource final : public BatchSource {
public:
  explicit LoaderSource(text::Loader& loader) : loader_(loader) {}
  std::optional<Batch> next() override { return loader_.try_next(); }
  int64_t position() const override { return loader_.position(); }
  void seek(int64_t position) override { loader_.seek(position); }
  double bytes_per_token() const override { return loader_.bytes_per_token(); }

private:
  text::Loader& loader_;
};

} // namespace dllm::train
