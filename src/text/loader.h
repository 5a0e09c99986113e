#pragma once
// Batches of equal length out of a dataset, in an order that depends on (seed, epoch) alone.

#include "base/options.h"
#include "tensor/batch.h"
#include "text/row_index.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace dllm::text {

// batch, length, seed, split, split_fraction, pack, drop_tail, shuffle, epochs, truncate, pad_id,
// segments, rank, ranks.
const Schema& loader_schema();

// A batch holds `ids` i32 (batch, length), `keep` u8 (batch, length): 1 = given (a prompt,
// padding), never corrupted or counted, `segments` i32 (batch, length): tokens see their own
// segment only, 0 = padding, and `rows` i64[2]: number of the first row within the step and rows of
// the step, over all ranks. The last batch of all may have fewer rows.
class Loader {
public:
  // Fails with failed_precondition when the dataset holds texts or the split no rows.
  Loader(std::shared_ptr<const Dataset> data, const Options& options);

  // Nothing at the end of the data. data_loss when a file of the dataset changed since it was opened.
  std::optional<Batch> try_next();
  // Fails with out_of_range, "end of data after N batches".
  Batch next();

  // Sequences handed out so far, over all ranks and epochs. Seeking there gives the very same
  // batches again, also with another batch size or number of ranks.
  int64_t position() const { return position_; }
  void seek(int64_t position); // fails with out_of_range beyond the end

  double bytes_per_token() const { return bytes_per_token_; } // of the dataset
  int64_t sequences() const { return index_.size(); }         // of one epoch
  int64_t epoch() const { return position_ / index_.size(); }

private:
  // The sequence at a position of the endless stream of epochs.
  int64_t sequence_at(int64_t position) const;
  // Looks at the files of the dataset, some of them per batch when there are many.
  void check_files();

  std::shared_ptr<const Dataset> data_;
  RowIndex index_;
  double bytes_per_token_;
  int64_t batch_, length_, epochs_, rank_, ranks_;
  uint64_t seed_;
  bool shuffle_, segments_;
  int64_t end_ = 0; // position after the last sequence
  std::atomic<int64_t> position_{0}; // position() may be asked from any thread
  int64_t next_file_ = 0;            // to check
};

} // namespace dllm::text
