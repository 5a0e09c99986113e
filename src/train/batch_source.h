#pragma once
// Where a trainer takes its batches from.

#include "tensor/batch.h"
#include "text/data/loader.h"

#include <cstdint>
#include <optional>

namespace dllm::train {

// The source of a run's batches: a loader over a dataset, or a source of a test. One call at a
// time.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  virtual std::optional<Batch> next() = 0; // nothing: the data has ended
  virtual int64_t position() const = 0;    // batches taken since the start, over all epochs
  virtual void seek(int64_t position) = 0; // fails with out_of_range past the end
  // Allows the source to make up to `most` batches ahead, until stop_ahead(). The results of
  // next(), position() and seek() do not change.
  virtual void start_ahead(int64_t most) { static_cast<void>(most); }
  virtual void stop_ahead() {}
  // Returns the rows of one time through the data; 0: unknown.
  virtual int64_t epoch_rows() const { return 0; }
  // Returns the mean number of bytes of text per token; 0: unknown.
  virtual double bytes_per_token() const { return 0; }
};

// Reads from a loader, which must outlive the source.
class LoaderSource final : public BatchSource {
public:
  explicit LoaderSource(text::Loader& loader) : loader_(loader) {}
  std::optional<Batch> next() override { return loader_.try_next(); }
  int64_t position() const override { return loader_.position(); }
  void seek(int64_t position) override { loader_.seek(position); }
  void start_ahead(int64_t most) override { loader_.start_ahead(most); }
  void stop_ahead() override { loader_.stop_ahead(); }
  int64_t epoch_rows() const override { return loader_.sequences(); }
  double bytes_per_token() const override { return loader_.bytes_per_token(); }

private:
  text::Loader& loader_;
};

// Lets a source make batches ahead while this object lives.
class ReadingAhead {
public:
  ReadingAhead(BatchSource& source, int64_t most) : source_(source) { source_.start_ahead(most); }
  ~ReadingAhead() { source_.stop_ahead(); }
  ReadingAhead(const ReadingAhead&) = delete;
  ReadingAhead& operator=(const ReadingAhead&) = delete;

private:
  BatchSource& source_;
};

} // namespace dllm::train
