#include "text/loader.h"

#include "base/error.h"
#include "base/random.h"
#include "text/dataset.h"

#include <algorithm>
#include <bit>
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

bool is_held_out(const TokenRow& row, double fraction) {
  constexpr uint64_t kSplitSeed = 0x5350'4C49'5431u; // fixed: a split never changes
  const uint64_t hash = hash_bytes(row.ids.data(), row.ids.size_bytes(), kSplitSeed);
  return static_cast<double>(hash >> 11) * 0x1p-53 < fraction;
}

RowIndex::RowIndex(std::shared_ptr<const Dataset> data, const RowIndexSettings& settings)
    : data_(std::move(data)), settings_(settings) {
  const auto take = [&](int64_t index) {
    const int64_t count = data_->row_length(index);
    if (!settings_.pack && settings_.truncate == Truncate::drop && count > settings_.length) return;
    rows_.push_back(index);
    if (settings_.pack) begins_.push_back(tokens_);
    tokens_ += count;
  };
  if (settings_.split == Split::all) {
    for (int64_t i = 0; i < data_->size(); ++i) take(i);
  } else {
    data_->scan([&](int64_t index, const TokenRow& row) {
      const bool held_out = is_held_out(row, settings_.split_fraction);
      if (held_out == (settings_.split == Split::held_out)) take(index);
    });
  }
  sequences_ = static_cast<int64_t>(rows_.size());
  if (settings_.pack) {
    begins_.push_back(tokens_);
    sequences_ = (tokens_ + (settings_.drop_tail ? 0 : settings_.length - 1)) / settings_.length;
  }
}

void RowIndex::fill(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
                    std::span<int32_t> segments) const {
  if (settings_.pack) {
    fill_packed(index, ids, keep, segments);
  } else {
    fill_single(index, ids, keep, segments);
  }
}

namespace {

// Copies row tokens [from, from + count) to `at`.
void copy_part(const TokenRow& row, size_t from, size_t count, size_t at, int32_t segment,
               std::span<int32_t> ids, std::span<uint8_t> keep, std::span<int32_t> segments) {
  std::copy_n(row.ids.begin() + static_cast<std::ptrdiff_t>(from), count,
              ids.begin() + static_cast<std::ptrdiff_t>(at));
  for (size_t i = 0; i < count; ++i) {
    keep[at + i] = row.keep.empty() ? 0 : row.keep[from + i];
    segments[at + i] = segment;
  }
}

} // namespace

void RowIndex::fill_single(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
                           std::span<int32_t> segments) const {
  const int64_t number = rows_[static_cast<size_t>(index)];
  const auto length = static_cast<size_t>(data_->row_length(number));
  const size_t count = std::min(length, ids.size());
  const size_t from = settings_.truncate == Truncate::left ? length - count : 0;
  const TokenRow row = data_->part(data_->row_begin(number) + static_cast<int64_t>(from),
                                   static_cast<int64_t>(count));
  copy_part(row, 0, count, 0, 1, ids, keep, segments);
  for (size_t i = count; i < ids.size(); ++i) {
    ids[i] = settings_.pad;
    keep[i] = 1;
    segments[i] = 0;
  }
}

void RowIndex::fill_packed(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
                           std::span<int32_t> segments) const {
  const int64_t begin = index * settings_.length;
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
  auto place = static_cast<size_t>(after - begins_.begin()) - 1; // the row that holds token `begin`
  size_t from = static_cast<size_t>(begin - begins_[place]);
  size_t at = 0;
  int32_t segment = 0;
  // Rows that follow each other in the data lie end to end: one read serves them all.
  TokenRow held;
  int64_t held_begin = 0, held_end = 0;
  for (; at < ids.size() && place < rows_.size(); ++place, from = 0) {
    const int64_t row = rows_[place];
    const auto length = static_cast<size_t>(data_->row_length(row));
    const bool goes_on = segment > 0 && !data_->row_starts(row) && row == rows_[place - 1] + 1;
    if (!goes_on && length > from) ++segment;
    const size_t count = std::min(length - from, ids.size() - at);
    const int64_t first = data_->row_begin(row) + static_cast<int64_t>(from);
    if (first < held_begin || first + static_cast<int64_t>(count) > held_end) {
      held_begin = first;
      held_end = std::min(first + static_cast<int64_t>(ids.size() - at), data_->tokens());
      held = data_->part(held_begin, held_end - held_begin);
    }
    copy_part(held, static_cast<size_t>(first - held_begin), count, at, segment, ids, keep,
              segments);
    at += count;
  }
  for (; at < ids.size(); ++at) {
    ids[at] = settings_.pad;
    keep[at] = 1;
    segments[at] = 0;
  }
}

int64_t permuted(int64_t index, int64_t count, Key key) {
  constexpr uint32_t kRounds = 6;
  const int bits = std::max(2, static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1))));
  const int half =
      (bits + 1) / 2; // both halves are this wide: the domain is at most 4 times `count`
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto x = static_cast<uint64_t>(index);
  do { // a value outside 0..count-1 is permuted again: its cycle comes back inside
    uint64_t left = x >> half, right = x & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto [hi, lo] = threefry2x32(key, static_cast<uint32_t>(right), round);
      const uint64_t next = left ^ (((static_cast<uint64_t>(hi) << 32) | lo) & mask);
      left = right;
      right = next;
    }
    x = (left << half) | right;
  } while (x >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(x);
}

} // namespace dllm::text
