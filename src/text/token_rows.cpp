#include "text/token_rows.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::text {

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
  constexpr int64_t kId = sizeof(int32_t);
  made.own_ids = file_->read(places_.ids + first * kId, count * kId);
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

} // namespace dllm::text
