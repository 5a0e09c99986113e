#pragma once
// A loader makes batches from a dataset. It chooses the rows (all, training or held out), makes
// sequences of them (one row each, or rows packed end to end), and chooses their order.

#include "base/options.h"
#include "base/random.h"
#include "tensor/batch.h"
#include "text/data/anchor_cache.h"
#include "text/data/collate.h"
#include "text/data/dataset.h"
#include "text/data/prefetch.h"
#include "text/data/row_arrays.h"
#include "text/data/trajectories.h"

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
  double split_fraction = 0.05; // fraction of rows that are held out
  bool pack = true;
  bool drop_tail = false; // packed: the last, shorter sequence is left out
  Truncate truncate = Truncate::right;
  int32_t pad = 0;
};

// Returns whether a row belongs to the held-out split, from the hash of its tokens. Equal rows are
// therefore in the same split, and rows that are added later do not move other rows.
bool is_held_out(const TokenRow& row, double fraction);

// The rows of a split and the sequences that are made of them.
class RowIndex {
public:
  RowIndex(std::shared_ptr<const Dataset> data, const RowIndexSettings& settings);

  int64_t size() const { return sequences_; } // sequences
  // Returns the number of rows of the split.
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t tokens() const { return tokens_; }   // tokens of these rows
  int64_t dropped() const { return dropped_; } // rows of the split that are too long, and left out
  // Fills sequence `index`; each span has `length` elements. keep is 1 for padding and prompts.
  // segments numbers the rows of the sequence from 1; padding is 0. REQUIRES: pack,
  // 0 <= index < size().
  void fill(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
            std::span<int32_t> segments) const;
  // Returns row `index`, cut to `length`. trajectories may be null. REQUIRES: not pack,
  // 0 <= index < size().
  Example example(int64_t index, const Trajectories* trajectories = nullptr) const;
  // Returns the number of the row in the dataset.
  int64_t row(int64_t index) const { return rows_[static_cast<size_t>(index)]; }
  int64_t key(int64_t index) const; // row_key() of all tokens of that row (row_arrays.h)
  // Returns the number of sequences without a learned token. Reads all rows once, or no row when
  // the dataset has no given tokens.
  int64_t count_silent() const;
  int32_t pad() const { return settings_.pad; }

private:
  std::shared_ptr<const Dataset> data_;
  RowIndexSettings settings_;
  std::vector<int64_t> rows_; // row numbers in the dataset, ascending
  // Packed only: for each row the number of tokens before it, then the number of all tokens.
  std::vector<int64_t> begins_;
  int64_t tokens_ = 0;
  int64_t sequences_ = 0;
  int64_t dropped_ = 0;
};

// Returns the element at `index` of a random permutation of 0..count-1. The element is computed
// without a table (a Feistel network over threefry, with cycle walking), so that a seek to any
// epoch takes constant time. REQUIRES: 0 <= index < count.
int64_t permuted(int64_t index, int64_t count, Key key);

// Options of a loader: batch, length, seed, split, split_fraction, pack, drop_tail, shuffle, order,
// epochs, truncate, pad_id, pad_side, see_padding, eos_block, response_cut, response_cut_ratio,
// segments, arrays, row_keys, trajectories, rank, ranks.
const Schema& loader_schema();

// Makes batches of equal length, in an order that depends on (seed, epoch) alone. A batch holds
//   ids       i32 (batch, length)
//   keep      u8 (batch, length), 1: given (a prompt, padding), never corrupted or counted
//   segments  i32 (batch, length); a token attends to its own segment only, 0: padding
//   rows      i64[2], the number of its first row in the step, and the rows of the step (all ranks)
// With option arrays a batch also holds the arrays of its rows in that file (row_arrays.h), or of
// their chunks in that folder (anchor_cache.h). With option trajectories it has the array
// "trajectory" (trajectories.h). The last batch of all may have fewer rows.
class Loader {
public:
  // Fails with failed_precondition when the dataset holds texts or the split has no rows.
  Loader(std::shared_ptr<const Dataset> data, const Options& options);

  // Returns the next batch, or nothing at the end of the data. Fails with data_loss when a file of
  // the dataset changed since it was opened.
  std::optional<Batch> try_next();
  // Fails with out_of_range, "end of data after N batches".
  Batch next();

  // Returns the number of sequences returned so far, over all ranks and epochs. After a seek to
  // this position the following sequences are the same, also with another batch size or number
  // of ranks.
  int64_t position() const { return position_; }
  void seek(int64_t position); // fails with out_of_range after the end of the data

  // Starts a thread that makes up to `most` batches, at most two ahead of try_next(), which returns
  // the same batches as without the thread. try_next() throws an error at the batch that it belongs
  // to. position() counts only returned batches. stop_ahead() and seek() end the thread.
  void start_ahead(int64_t most);
  void stop_ahead() { ahead_.reset(); }

  double bytes_per_token() const { return bytes_per_token_; } // of the dataset
  int64_t sequences() const { return index_.size(); }         // of one epoch
  int64_t epoch() const { return position_ / index_.size(); }
  const Dataset& data() const { return *data_; }
  int64_t length() const { return length_; }
  int64_t batch() const { return batch_; } // rows of a batch

private:
  // Returns the sequence at a position of the endless stream of epochs.
  int64_t sequence_at(int64_t position) const;
  // How rows that are not packed are cut and padded.
  struct Collation {
    PadSide side = PadSide::right;
    bool see_padding = false;
    int64_t eos_block = 0; // 0: off
    int32_t eos = -1;
    enum class Cut { none, responses, columns } cut = Cut::none;
    double cut_ratio = 0; // fraction of batches that lose columns
  };
  static Collation make_collation(const Dataset& data, const Options& options);
  void cut(std::vector<Example>& rows, int64_t place) const;
  void fill_packed(int64_t place, Tensor& ids, Tensor& keep, Tensor& segments) const;
  void fill_collated(int64_t place, Tensor& ids, Tensor& keep, Tensor& segments,
                     Tensor& trajectory) const;
  // Makes the batch at a position of the stream; throws its errors.
  MadeBatch make(int64_t position);
  // Checks that files of the dataset did not change, at most 16 files per call, in turn.
  void check_files();

  std::shared_ptr<const Dataset> data_;
  RowIndex index_;
  double bytes_per_token_;
  int64_t batch_, length_, epochs_, rank_, ranks_;
  uint64_t seed_;
  bool shuffle_, segments_, row_keys_, pack_, python_order_;
  Collation collation_;
  // Option arrays is a file or a folder. Null without it.
  std::unique_ptr<const RowArrays> arrays_;
  std::unique_ptr<const AnchorCache> anchors_;
  // Null without option trajectories.
  std::unique_ptr<const Trajectories> trajectories_;
  mutable std::vector<int64_t> epoch_order_; // with python_order_: the order of epoch order_of_
  mutable int64_t order_of_ = -1;
  int64_t end_ = 0;                  // position after the last sequence
  std::atomic<int64_t> position_{0}; // position() may be called by any thread
  int64_t next_file_ = 0;            // the next file that check_files() checks
  std::unique_ptr<Prefetch> ahead_;  // must be the last member: its thread uses the others
};

} // namespace dllm::text
