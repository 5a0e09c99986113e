#include "text/data/loader.h"

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "text/data/dataset.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <limits>

namespace dllm::text {

const Schema& loader_schema() {
  constexpr double kMany = 1e15;
  static const Schema schema(
      "loader",
      {option_i64("batch", 8, 1, 1 << 20,
                  "rows of a batch: a mesh divides them among its ranks; with option ranks each "
                  "rank has this number"),
       option_i64("length", 256, 1, 1 << 24, "tokens of a row"),
       option_i64("seed", 0, 0, static_cast<int64_t>(kMany), "chooses the order of the rows"),
       option_choice("split", "all", {"all", "train", "held_out"}, "rows to use"),
       option_f64("split_fraction", 0.05, 0, 1, "part of the rows that is held out of training"),
       option_bool("pack", true, "lay rows end to end; off: one row each, cut or padded"),
       option_bool("drop_tail", false,
                   "leave out the last row of a packed epoch when it is not full"),
       option_bool("shuffle", true, "use another order in every epoch"),
       option_choice("order", "keyed", {"keyed", "python"},
                     "how rows are shuffled; python: as random.Random(seed + epoch).shuffle, with "
                     "8 bytes a row"),
       option_i64("epochs", 1, 0, static_cast<int64_t>(kMany),
                  "times through the data; 0: without end"),
       option_choice("truncate", "right", {"right", "left", "drop"},
                     "end of a row that is cut off when it is too long and rows are not packed"),
       option_i64("pad_id", -1, -1, std::numeric_limits<int32_t>::max(),
                  "token that fills rows; -1: pad of the tokenizer, else its eos, else 0"),
       option_choice("pad_side", "right", {"right", "left"},
                     "end at which rows that are not packed are filled up"),
       option_bool(
           "see_padding", false,
           "tokens see the padding of rows that are not packed, as without an attention mask"),
       option_i64("eos_block", 0, 0, 1 << 24,
                  "rows that are not packed end with learned eos tokens, up to a multiple of this; "
                  "0: off"),
       option_choice(
           "response_cut", "none", {"none", "responses", "columns"},
           "cut of rows that are not packed (Dream). responses: each response becomes as long as "
           "one of the batch; columns: the last columns of the batch are removed"),
       option_f64("response_cut_ratio", 0, 0, 1, "part of the batches that lose columns"),
       option_bool("segments", true,
                   "return the array segments, so that packed texts do not see each other"),
       option_str("arrays", "",
                  "file of arrays that belong to rows which are not packed (safetensors, by "
                  "row_keys), or folder of dllm anchors; empty: none"),
       option_bool(
           "row_keys", false,
           "return the array row_keys, by which a file of arrays finds rows that are not packed"),
       option_str("trajectories", "",
                  "file of trajectories of rows that are not packed, which dllm trajectories "
                  "writes; the objective masks as they do; empty: none"),
       option_i64("rank", 0, 0, 1 << 20, "number of this rank"),
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

// Warns about rows whose tokens are all given, because their answers are cut away or empty. Fails
// when every row is such a row.
void check_silence(const RowIndex& index, const RowIndexSettings& settings) {
  const int64_t silent = index.count_silent();
  if (silent == 0) return;
  const char* rows = settings.pack ? "packed sequences" : "rows";
  if (silent == index.size()) {
    fail_with_hint("set a larger length, or add rows with an answer", Code::invalid_argument,
                   "none of the {} {} has a token to learn: their answers are cut away at {} "
                   "tokens, or empty",
                   silent, rows, settings.length);
  }
  log(LogLevel::warn,
      "{} of {} {} have no tokens to learn: their answers are cut away at {} tokens, or empty; try "
      "a larger length{}",
      silent, index.size(), rows, settings.length,
      settings.pack ? ", or pack = false of the loader" : ", or truncate = left of the loader");
}

// Warns about rows that are cut or left out, and about batches that are padding for the most part.
void warn_of_lengths(const Dataset& data, const RowIndex& index, const RowIndexSettings& settings) {
  if (settings.pack) return;
  int64_t cut = 0, used = 0;
  for (int64_t i = 0; i < index.size(); ++i) {
    const int64_t length = data.row_length(index.row(i));
    if (length > settings.length) ++cut;
    used += std::min(length, settings.length);
  }
  if (cut > 0) {
    log(LogLevel::warn, "{} of {} rows are longer than {} tokens and are cut", cut, index.size(),
        settings.length);
  }
  if (index.dropped() > 0) {
    log(LogLevel::warn,
        "{} of {} rows are longer than {} tokens and are left out (truncate = drop)",
        index.dropped(), index.dropped() + index.rows(), settings.length);
  }
  constexpr double kMost = 0.75; // of the positions
  const double padding = 1 - static_cast<double>(used) / static_cast<double>(index.size()) /
                                 static_cast<double>(settings.length);
  if (padding >= kMost) {
    log(LogLevel::warn,
        "{:.0f} % of the positions of {} rows of {} tokens are padding; a smaller length is faster",
        100 * padding, index.size(), settings.length);
  }
}

RowIndex make_index(const std::shared_ptr<const Dataset>& data, const Options& options) {
  if (data->is_text()) {
    fail_with_hint("open the dataset with a tokenizer", Code::failed_precondition,
                   "a loader needs token rows, but the dataset holds texts");
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
    if (index.dropped() > 0) {
      fail_with_hint("set a larger length, or truncate = right", Code::failed_precondition,
                     "split {}: all of its {} rows are longer than {} tokens, and truncate = drop "
                     "leaves them out",
                     split, index.dropped(), settings.length);
    }
    const std::string hint = split == "all" ? "add data, or change length, drop_tail or truncate"
                                            : "add data, change split_fraction, or use split all";
    fail_with_hint(
        hint, Code::failed_precondition,
        "split {} has {} of {} rows with {} of {} tokens, too few for a row of length {}", split,
        index.rows(), data->size(), index.tokens(), data->tokens(), settings.length);
  }
  if (settings.split == Split::held_out) return index; // the other rows of the data are checked
  check_silence(index, settings);
  warn_of_lengths(*data, index, settings);
  return index;
}

} // namespace

Loader::Collation Loader::make_collation(const Dataset& data, const Options& options) {
  for (const char* key : {"pad_side", "see_padding", "eos_block", "response_cut", "arrays",
                          "row_keys", "trajectories"}) {
    if (!options.is_set(key) || !options.boolean("pack")) continue;
    const bool is_arrays = key == std::string_view("arrays");
    if (is_arrays && (options.str(key).empty() || is_directory(options.str(key)))) continue;
    fail_with_hint("set pack to false", Code::invalid_argument,
                   "{} is for rows that are not packed", key);
  }
  Collation made;
  made.side = options.str("pad_side") == "left" ? PadSide::left : PadSide::right;
  made.see_padding = options.boolean("see_padding");
  made.eos_block = options.i64("eos_block");
  made.eos = data.special().eos;
  if (made.eos_block > 0 && made.eos < 0) {
    fail_with_hint("name it with the option eos of the tokenizer", Code::failed_precondition,
                   "eos_block: the tokenizer has no eos token");
  }
  if (made.eos_block > 0 && options.i64("length") % made.eos_block != 0) {
    fail(Code::invalid_argument, "eos_block {} does not divide length {}", made.eos_block,
         options.i64("length"));
  }
  const std::string& cut = options.str("response_cut");
  made.cut = cut == "responses" ? Collation::Cut::responses
             : cut == "columns" ? Collation::Cut::columns
                                : Collation::Cut::none;
  made.cut_ratio = options.f64("response_cut_ratio");
  if (made.cut != Collation::Cut::columns && options.is_set("response_cut_ratio")) {
    fail_with_hint("set response_cut to columns", Code::invalid_argument,
                   "response_cut_ratio needs response_cut columns, but response_cut is {}", cut);
  }
  return made;
}

namespace {

std::unique_ptr<const Trajectories> open_trajectories(const std::string& path, const Dataset& data,
                                                      const Options& options) {
  if (options.i64("eos_block") > 0) {
    fail_with_hint("set eos_block to 0, and append_eos of the dataset to 1", Code::invalid_argument,
                   "eos_block adds tokens that no trajectory has");
  }
  return std::make_unique<const Trajectories>(path, data);
}

} // namespace

Loader::Loader(std::shared_ptr<const Dataset> data, const Options& options)
    : data_(data), index_(make_index(data, options)), bytes_per_token_(data->bytes_per_token()),
      batch_(options.i64("batch")), length_(options.i64("length")), epochs_(options.i64("epochs")),
      rank_(options.i64("rank")), ranks_(options.i64("ranks")),
      seed_(static_cast<uint64_t>(options.i64("seed"))), shuffle_(options.boolean("shuffle")),
      segments_(options.boolean("segments")), row_keys_(options.boolean("row_keys")),
      pack_(options.boolean("pack")), python_order_(options.str("order") == "python"),
      collation_(make_collation(*data, options)) {
  if (rank_ >= ranks_)
    fail(Code::invalid_argument, "rank is {}, expected less than {}", rank_, ranks_);
  if (batch_ * length_ > kMostTokens) {
    fail(Code::invalid_argument, "a batch of {} rows of {} tokens has more than {} tokens", batch_,
         length_, kMostTokens);
  }
  if (const std::string& path = options.str("arrays"); is_directory(path))
    anchors_ = std::make_unique<const AnchorCache>(path);
  else if (!path.empty())
    arrays_ = std::make_unique<const RowArrays>(path);
  if (const std::string& path = options.str("trajectories"); !path.empty())
    trajectories_ = open_trajectories(path, *data, options);
  const bool endless = epochs_ == 0 || epochs_ > kEndless / index_.size();
  end_ = endless ? kEndless : epochs_ * index_.size();
}

int64_t Loader::sequence_at(int64_t position) const {
  const int64_t epoch = position / index_.size();
  const int64_t place = position % index_.size();
  if (!shuffle_) return place;
  if (python_order_) {
    if (order_of_ != epoch)
      epoch_order_ = python_order(index_.size(), seed_ + static_cast<uint64_t>(epoch));
    order_of_ = epoch;
    return epoch_order_[static_cast<size_t>(place)];
  }
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

void Loader::fill_packed(int64_t place, Tensor& ids, Tensor& keep, Tensor& segments) const {
  const auto width = static_cast<size_t>(length_);
  for (int64_t r = 0; r < ids.shape()[0]; ++r) {
    const size_t at = static_cast<size_t>(r) * width;
    index_.fill(sequence_at(place + r), ids.mutable_as<int32_t>().subspan(at, width),
                keep.mutable_as<uint8_t>().subspan(at, width),
                segments.mutable_as<int32_t>().subspan(at, width));
  }
}

void Loader::cut(std::vector<Example>& rows, int64_t place) const {
  if (collation_.cut == Collation::Cut::none) return;
  // The key is the position of the batch in the stream, so that a seek draws the same numbers.
  const Key key = stream_key(seed_, Stream::shuffle, 0, static_cast<uint64_t>(place) + 1);
  const auto [first, second] = threefry2x32(key, 0, 0);
  if (collation_.cut == Collation::Cut::responses)
    return cut_responses(rows, rows[first % rows.size()].response());
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (const Example& row : rows) shortest = std::min(shortest, row.response());
  if (first * 0x1p-32 >= collation_.cut_ratio || shortest <= 1) return;
  cut_columns(rows, 1 + second % (shortest - 1), collation_.side);
}

void Loader::fill_collated(int64_t place, Tensor& ids, Tensor& keep, Tensor& segments,
                           Tensor& trajectory) const {
  std::vector<Example> rows;
  for (int64_t r = 0; r < ids.shape()[0]; ++r)
    rows.push_back(index_.example(sequence_at(place + r), trajectories_.get()));
  cut(rows, place);
  if (collation_.eos_block > 0) extend_with_eos(rows, collation_.eos_block, collation_.eos);
  const PaddedRows padded = pad_rows(rows, length_, index_.pad(), collation_.side);
  std::copy(padded.ids.begin(), padded.ids.end(), ids.mutable_as<int32_t>().begin());
  std::copy(padded.keep.begin(), padded.keep.end(), keep.mutable_as<uint8_t>().begin());
  std::copy(padded.seen.begin(), padded.seen.end(), segments.mutable_as<int32_t>().begin());
  if (trajectory.defined())
    std::copy(padded.trajectory.begin(), padded.trajectory.end(),
              trajectory.mutable_as<int32_t>().begin());
  if (collation_.see_padding) std::ranges::fill(segments.mutable_as<int32_t>(), 1);
}

MadeBatch Loader::make(int64_t position) {
  int64_t own = batch_, all = batch_ * ranks_;
  if (const int64_t left = end_ - position; left < all) {
    if (left <= 0 || ranks_ > 1) return {}; // ranks must agree on shapes: a ragged end is left out
    own = all = left;
  }
  const auto reading = data_->reading();
  check_files();
  const int64_t place = position + rank_ * batch_;
  const Shape shape{own, length_};
  Tensor ids(DType::i32, shape), keep(DType::u8, shape), segments(DType::i32, shape), trajectory;
  if (trajectories_ != nullptr) trajectory = Tensor(DType::i32, shape);
  if (pack_)
    fill_packed(place, ids, keep, segments);
  else
    fill_collated(place, ids, keep, segments, trajectory);
  Batch batch;
  batch.set("ids", std::move(ids));
  batch.set("keep", std::move(keep));
  if (!segments_) std::ranges::fill(segments.mutable_as<int32_t>(), 1); // all see each other
  if (anchors_ != nullptr) {
    anchors_->add_to(batch, segments, place,
                     [&](std::span<const int32_t> own) { return data_->first_words(own); });
  }
  if (segments_) batch.set("segments", std::move(segments));
  if (trajectory.defined()) batch.set(kTrajectory, std::move(trajectory));
  batch.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{rank_ * batch_, all}));
  if (arrays_ == nullptr && !row_keys_) return {std::move(batch), all, nullptr};
  std::vector<int64_t> keys;
  for (int64_t r = 0; r < own; ++r) keys.push_back(index_.key(sequence_at(place + r)));
  if (arrays_ != nullptr) arrays_->add_to(batch, keys, place);
  if (row_keys_) batch.set(kRowKeys, Tensor::from(Shape{own}, keys));
  return {std::move(batch), all, nullptr};
}

void Loader::start_ahead(int64_t most) {
  constexpr size_t kDepth = 2;
  stop_ahead();
  if (most < 2) return; // a single batch is needed at once
  ahead_ = std::make_unique<Prefetch>([this](int64_t position) { return make(position); },
                                      position(), most, kDepth);
}

std::optional<Batch> Loader::try_next() {
  std::optional<MadeBatch> made;
  if (ahead_ != nullptr) made = ahead_->take();
  if (!made) {
    stop_ahead();
    made = make(position_);
  }
  if (made->error != nullptr) std::rethrow_exception(made->error);
  position_ += made->rows;
  return std::move(made->batch);
}

Batch Loader::next() {
  std::optional<Batch> batch = try_next();
  if (!batch) {
    fail_with_hint("set epochs, or seek to 0", Code::out_of_range,
                   "the data ended after {} batches",
                   (position_ + batch_ * ranks_ - 1) / (batch_ * ranks_));
  }
  return std::move(*batch);
}

void Loader::seek(int64_t position) {
  if (position < 0 || position > end_) {
    fail(Code::out_of_range, "position {} is outside the {} rows of {} epochs", position, end_,
         epochs_);
  }
  stop_ahead();
  position_ = position;
}

int64_t permuted(int64_t index, int64_t count, Key key) {
  constexpr uint32_t kRounds = 6;
  const int bits = std::max(2, static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1))));
  // Bits of each half; the domain has at most 4 times `count` values.
  const int half = (bits + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto x = static_cast<uint64_t>(index);
  do { // a value outside 0..count-1 is permuted again until it is inside
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
