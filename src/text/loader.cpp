#include "text/loader.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace dllm::text {

const Schema& loader_schema() {
  constexpr double kMany = 1e15;
  static const Schema schema(
      "loader",
      {option_i64("batch", 8, 1, 1 << 20, "rows of a batch (of one rank)"),
       option_i64("length", 256, 1, 1 << 24, "tokens of a row"),
       option_i64("seed", 0, 0, static_cast<int64_t>(kMany), "chooses the order of the rows"),
       option_choice("split", "all", {"all", "train", "held_out"}, "which rows are used"),
       option_f64("split_fraction", 0.05, 0, 1, "part of the rows that is held out of training"),
       option_bool("pack", true, "lay rows end to end; off: one row each, cut or padded"),
       option_bool("drop_tail", false,
                   "leave out the last row of a packed epoch when it is not full"),
       option_bool("shuffle", true, "another order in every epoch"),
       option_i64("epochs", 1, 0, static_cast<int64_t>(kMany),
                  "times through the data; 0: without end"),
       option_choice("truncate", "right", {"right", "left", "drop"},
                     "what a row that is too long loses when rows are not packed"),
       option_i64("pad_id", -1, -1, std::numeric_limits<int32_t>::max(),
                  "token that fills rows; -1: pad of the tokenizer, else its eos, else 0"),
       option_bool("segments", true, "return segments, so that packed texts do not see each other"),
       option_i64("rank", 0, 0, 1 << 20, "which of the ranks this is"),
       option_i64("ranks", 1, 1, 1 << 20, "ranks that share every batch")});
  return schema;
}

namespace {

constexpr int64_t kMostTokens = int64_t{1} << 28; // of a batch: 2.4 GB of arrays
constexpr int64_t kEndless = int64_t{1} << 62;

int32_t pad_id(const Dataset& data, const Options& options) {
  const int64_t asked = options.i64("pad_id");
  if (asked >= data.vocabulary_size()) {
    fail(Code::invalid_argument, "pad_id {} is outside the vocabulary of {}", asked,
         data.vocabulary_size());
  }
  if (asked >= 0) return static_cast<int32_t>(asked);
  const SpecialIds& special = data.special();
  return special.pad >= 0 ? special.pad : std::max(special.eos, 0);
}

RowIndex make_index(const std::shared_ptr<const Dataset>& data, const Options& options) {
  if (data->is_text()) {
    fail_with_hint("open the dataset with a tokenizer", Code::failed_precondition,
                   "a loader needs token rows, the dataset holds texts");
  }
  const std::string& split = options.str("split");
  const std::string& truncate = options.str("truncate");
  RowIndexSettings settings;
  settings.length = options.i64("length");
  settings.split = split == "train"      ? Split::train
                   : split == "held_out" ? Split::held_out
                                         : Split::all;
  settings.split_fraction = options.f64("split_fraction");
  settings.pack = options.boolean("pack");
  settings.drop_tail = options.boolean("drop_tail");
  settings.truncate = truncate == "left"   ? Truncate::left
                      : truncate == "drop" ? Truncate::drop
                                           : Truncate::right;
  settings.pad = pad_id(*data, options);
  RowIndex index(data, settings);
  if (index.size() == 0) {
    const std::string hint = split == "all" ? "add data, or change length, drop_tail or truncate"
                                            : "add data, change split_fraction, or use split all";
    fail_with_hint(
        hint, Code::failed_precondition,
        "split {} has {} of {} rows with {} of {} tokens: that makes no row of length {}", split,
        index.rows(), data->size(), index.tokens(), data->tokens(), settings.length);
  }
  return index;
}

} // namespace

Loader::Loader(std::shared_ptr<const Dataset> data, const Options& options)
    : data_(data), index_(make_index(data, options)), bytes_per_token_(data->bytes_per_token()),
      batch_(options.i64("batch")), length_(options.i64("length")), epochs_(options.i64("epochs")),
      rank_(options.i64("rank")), ranks_(options.i64("ranks")),
      seed_(static_cast<uint64_t>(options.i64("seed"))), shuffle_(options.boolean("shuffle")),
      segments_(options.boolean("segments")) {
  if (rank_ >= ranks_) fail(Code::invalid_argument, "rank {} of {} ranks", rank_, ranks_);
  if (batch_ * length_ > kMostTokens) {
    fail(Code::invalid_argument, "a batch of {} rows of {} tokens has more than {}", batch_,
         length_, kMostTokens);
  }
  const bool endless = epochs_ == 0 || epochs_ > kEndless / index_.size();
  end_ = endless ? kEndless : epochs_ * index_.size();
}

int64_t Loader::sequence_at(int64_t position) const {
  const int64_t epoch = position / index_.size();
  const int64_t place = position % index_.size();
  if (!shuffle_) return place;
  return permuted(place, index_.size(),
                  stream_key(seed_, Stream::shuffle, static_cast<uint64_t>(epoch), 0));
}

void Loader::check_files() {
  constexpr int64_t kPerBatch = 16; // about 1 us each
  const int64_t count = data_->file_count();
  for (int64_t i = 0; i < std::min(count, kPerBatch); ++i) {
    data_->check_file(next_file_);
    next_file_ = (next_file_ + 1) % count;
  }
}

std::optional<Batch> Loader::try_next() {
  int64_t own = batch_, all = batch_ * ranks_;
  if (const int64_t left = end_ - position_; left < all) {
    if (left <= 0 || ranks_ > 1)
      return std::nullopt; // ranks must agree on shapes: a ragged end is left out
    own = all = left;
  }
  check_files();
  const Shape shape{own, length_};
  Tensor ids(DType::i32, shape), keep(DType::u8, shape), segments(DType::i32, shape);
  const auto width = static_cast<size_t>(length_);
  for (int64_t r = 0; r < own; ++r) {
    const size_t at = static_cast<size_t>(r) * width;
    index_.fill(sequence_at(position_ + rank_ * batch_ + r),
                ids.mutable_as<int32_t>().subspan(at, width),
                keep.mutable_as<uint8_t>().subspan(at, width),
                segments.mutable_as<int32_t>().subspan(at, width));
  }
  position_ += all;
  Batch batch;
  batch.set("ids", std::move(ids));
  batch.set("keep", std::move(keep));
  if (segments_) batch.set("segments", std::move(segments));
  batch.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{rank_ * batch_, all}));
  return batch;
}

Batch Loader::next() {
  std::optional<Batch> batch = try_next();
  if (!batch) {
    fail_with_hint("set epochs, or seek to 0", Code::out_of_range, "end of data after {} batches",
                   (position_ + batch_ * ranks_ - 1) / (batch_ * ranks_));
  }
  return std::move(*batch);
}

void Loader::seek(int64_t position) {
  if (position < 0 || position > end_) {
    fail(Code::out_of_range, "position {} is outside the {} rows of {} epochs", position, end_,
         epochs_);
  }
  position_ = position;
}

} // namespace dllm::text
