// This file has rows of token ids in memory and in files (TokenRows), and rows that are written to
// a file (TokenSpill).

#include "base/error.h"
#include "base/files.h"
#include "base/task.h"
#include "text/data/dataset.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::text {

namespace {

// Converts u16 to i32.
Bytes widened(const Bytes& narrow) {
  const std::span from(reinterpret_cast<const uint16_t*>(narrow.data()), narrow.size() / 2);
  const auto wide = std::make_shared<std::vector<int32_t>>(from.begin(), from.end());
  return Bytes(wide->data(), wide->size() * sizeof(int32_t), wide);
}

} // namespace

TokenRows::TokenRows(std::shared_ptr<const InputFile> file, TokenPlaces places,
                     std::vector<int64_t> offsets, std::vector<uint8_t> starts)
    : offsets_(std::move(offsets)), starts_(std::move(starts)), file_(std::move(file)),
      places_(places) {}

TokenRow TokenRows::part(int64_t first, int64_t count) const {
  TokenRow made;
  const auto at = static_cast<size_t>(first), size = static_cast<size_t>(count);
  if (file_ == nullptr) {
    made.ids = std::span(ids_).subspan(at, size);
    if (!keep_.empty()) made.keep = std::span(keep_).subspan(at, size);
    return made;
  }
  const int64_t width = places_.id_bytes;
  made.own_ids = file_->read(places_.ids + first * width, count * width);
  if (width == 2) made.own_ids = widened(made.own_ids);
  made.ids = {reinterpret_cast<const int32_t*>(made.own_ids.data()), size};
  if (places_.keep < 0) return made;
  made.own_keep = file_->read(places_.keep + first, count);
  made.keep = {reinterpret_cast<const uint8_t*>(made.own_keep.data()), size};
  return made;
}

TokenRow TokenRows::row(int64_t index) const {
  TokenRow made = part(begin(index), length(index));
  made.starts = starts(index);
  return made;
}

void TokenRows::scan(const std::function<void(int64_t, const TokenRow&)>& visit) const {
  constexpr int64_t kBlock = int64_t{1} << 20; // tokens
  for (int64_t index = 0; index < size();) {
    const int64_t first = begin(index);
    int64_t last = index + 1;
    while (last < size() && begin(last + 1) - first <= kBlock) ++last;
    const TokenRow block = part(first, begin(last) - first);
    for (; index < last; ++index) {
      const auto at = static_cast<size_t>(begin(index) - first);
      const auto count = static_cast<size_t>(length(index));
      visit(index, {block.ids.subspan(at, count),
                    block.keep.empty() ? block.keep : block.keep.subspan(at, count),
                    starts(index),
                    {},
                    {}});
    }
  }
}

void TokenRows::add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts) {
  if (file_ != nullptr) {
    fail_with_hint("make a dataset in memory and save it", Code::failed_precondition,
                   "rows cannot be added to a token file");
  }
  if (!keep.empty() && keep_.empty()) keep_.assign(ids_.size(), 0);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  keep_.insert(keep_.end(), keep.begin(), keep.end());
  if (!keep_.empty()) keep_.resize(ids_.size(), 0);
  offsets_.push_back(static_cast<int64_t>(ids_.size()));
  starts_.push_back(starts);
}

TokenSpill::TokenSpill(const std::string& path)
    : ids_path_(path + ".ids"), keep_path_(path + ".keep"),
      ids_(std::make_unique<FileWriter>(ids_path_)),
      keep_(std::make_unique<FileWriter>(keep_path_)) {}

TokenSpill::~TokenSpill() {
  ids_.reset();
  keep_.reset();
  for (const std::string& path : {ids_path_, keep_path_}) {
    try {
      remove_all(path);
    } catch (const Error&) { // a leftover; the name describes it
    }
  }
}

void TokenSpill::add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts) {
  ids_->write(ids.data(), ids.size_bytes());
  const std::vector<uint8_t> none(keep.empty() ? ids.size() : 0, 0);
  keep_->write(keep.empty() ? none.data() : keep.data(), ids.size());
  has_keep_ = has_keep_ || !keep.empty();
  offsets_.push_back(offsets_.back() + static_cast<int64_t>(ids.size()));
  starts_.push_back(starts);
}

TokenRows TokenSpill::finish(const Task* task) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  keep_->close();
  TokenPlaces places;
  if (has_keep_) {
    places.keep = ids_->written();
    const InputFile keep(keep_path_);
    for (int64_t at = 0; at < keep.size(); at += kPiece) {
      check_task(task);
      const Bytes piece = keep.read(at, std::min(kPiece, keep.size() - at));
      ids_->write(piece.data(), piece.size());
    }
  }
  ids_->close();
  return TokenRows(std::make_shared<const InputFile>(ids_path_), places, std::move(offsets_),
                   std::move(starts_));
}

} // namespace dllm::text
