#pragma once
// Batches of equal length out of a dataset: which rows (all, training, held out), how they become sequences (one row
// each, or packed end to end), and in which order.

#include "base/options.h"
#include "base/random.h"
#include "tensor/batch.h"
#include "text/collate.h"
#include "text/dataset.h"
#include "text/prefetch.h"
#include "text/row_arrays.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dllm::text {

enum class Split { all, train, held_out };
enum class Truncate { right, left, drop };

struct RowIndexSettings {
  int64_t length = 256; // tokens of a sequence
  Split split = Split::all;
  double split_fraction = 0.05; // of the rows that are held out
  bool pack = true;
  bool drop_tail = false; // packed: leave out the last, shorter sequence
  Truncate truncate = Truncate::right;
  int32_t pad = 0;
};

// A row belongs to the held-out split by the hash of its tokens: equal rows fall on the same side,
// and rows added later move none.
bool is_held_out(const TokenRow& row, double fraction);

class RowIndex {
public:
  RowIndex(std::shared_ptr<const Dataset> data, const RowIndexSettings& settings);

  int64_t size() const { return sequences_; } // sequences
  int64_t rows() const {
    return static_cast<int64_t>(rows_.size());
  }                                          // of the dataset, in this split
  int64_t tokens() const { return tokens_; } // of these rows
  // Fills one sequence; each span has `length` elements. keep: 1 on padding and prompts. segments:
  // the rows of a sequence are numbered from 1, padding is 0. REQUIRES: pack, 0 <= index < size().
  void fill(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
            std::span<int32_t> segments) const;
  // One row, cut to `length`. REQUIRES: not pack, 0 <= index < size().
  Example example(int64_t index) const;
  int64_t key(int64_t index) const; // of that row, whole (row_arrays.h)
  // Sequences in which no token is learned: all are given. One walk over the rows, none where no row gives anything.
  int64_t count_silent() const;
  int32_t pad() const { return settings_.pad; }

private:
  std::shared_ptr<const Dataset> data_;
  RowIndexSettings settings_;
  std::vector<int64_t> rows_; // numbers in the dataset, rising
  std::vector<int64_t>
      begins_; // packed: first token of each row in the stream of all, then their sum
  int64_t tokens_ = 0;
  int64_t sequences_ = 0;
};

// A random order that needs no table: the row at each place is computed (a Feistel network
// over threefry, with cycle walking), so any position of any epoch is found at once.

// The element at `index` of a random permutation of 0..count-1. REQUIRES: 0 <= index < count.
int64_t permuted(int64_t index, int64_t count, Key key);

// Batches of equal length out of a dataset, in an order that depends on (seed, epoch) alone.

// batch, length, seed, split, split_fraction, pack, drop_tail, shuffle, order, epochs, truncate, pad_id, pad_side,
// see_padding, eos_block, response_cut, response_cut_ratio, segments, arrays, rank, ranks.
const Schema& loader_schema();

// A batch holds `ids` i32 (batch, length), `keep` u8 (batch, length): 1 = given (a prompt,
// padding), never corrupted or counted, `segments` i32 (batch, length): tokens see their own
// segment only, 0 = padding, and `rows` i64[2]: number of the first row within the step and rows of
// the step, over all ranks. With option arrays it also holds the arrays of its rows in that file (row_arrays.h). The last
// batch of all may have fewer rows.
class Loader {
public:
  // Fails with failed_precondition when the dataset holds texts or the split no rows.
  Loader(std::shared_ptr<const Dataset> data, const Options& options);

  // Nothing at the end of the data. data_loss when a file of the dataset changed since it was opened.
  std::optional<Batch> try_next();
  // Fails with out_of_range, "end of data after N batches".
  Batch next();

  // Sequences returned so far, over all ranks and epochs. Seeking there gives the very same
  // batches again, also with another batch size or number of ranks.
  int64_t position() const { return position_; }
  void seek(int64_t position); // fails with out_of_range beyond the end

  // From now on up to `most` batches are made on a thread of its own, two ahead of try_next(), which returns the same
  // batches. An error comes with the batch it belongs to. position() counts what was returned. The
  // thread ends with stop_ahead() and seek().
  void start_ahead(int64_t most);
  void stop_ahead() { ahead_.reset(); }

  double bytes_per_token() const { return bytes_per_token_; } // of the dataset
  int64_t sequences() const { return index_.size(); }         // of one epoch
  int64_t epoch() const { return position_ / index_.size(); }

private:
  // The sequence at a position of the endless stream of epochs.
  int64_t sequence_at(int64_t position) const;
  // What collators do with rows that are not packed.
  struct Collation {
    PadSide side = PadSide::right;
    bool see_padding = false;
    int64_t eos_block = 0; // 0: off
    int32_t eos = -1;
    enum class Cut { none, responses, columns } cut = Cut::none;
    double cut_ratio = 0; // of the batches that lose columns
  };
  static Collation make_collation(const Dataset& data, const Options& options);
  void cut(std::vector<Example>& rows, int64_t place) const;
  void fill_packed(int64_t place, Tensor& ids, Tensor& keep, Tensor& segments) const;
  void fill_collated(int64_t place, Tensor& ids, Tensor& keep, Tensor& segments) const;
  // The batch at a position of the stream; throws.
  MadeBatch make(int64_t position);
  // Looks at the files of the dataset, some of them per batch when there are many.
  void check_files();

  std::shared_ptr<const Dataset> data_;
  RowIndex index_;
  double bytes_per_token_;
  int64_t batch_, length_, epochs_, rank_, ranks_;
  uint64_t seed_;
  bool shuffle_, segments_, pack_, python_order_;
  Collation collation_;
  std::unique_ptr<const RowArrays> arrays_; // null: there are none
  mutable std::vector<int64_t> epoch_order_; // of epoch order_of_, with python_order_
  mutable int64_t order_of_ = -1;
  int64_t end_ = 0;                  // position after the last sequence
  std::atomic<int64_t> position_{0}; // position() may be called by any thread
  int64_t next_file_ = 0;            // to check
  std::unique_ptr<Prefetch> ahead_;  // the last member: its thread uses the others
};

} // namespace dllm::text
