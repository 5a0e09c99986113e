#include "text/token_rows.h"

#include "base/error.h"

namespace dllm::text {

TokenRows::TokenRows(Bytes file, std::span<const int64_t> offsets, std::span<const uint8_t> starts,
                     std::span<const uint8_t> keep, std::span<const int32_t> ids)
    : file_(std::move(file)), offsets_(offsets), starts_(starts), keep_(keep), ids_(ids) {}

void TokenRows::publish() {
  offsets_ = own_offsets_;
  starts_ = own_starts_;
  keep_ = own_keep_;
  ids_ = own_ids_;
}

TokenRow TokenRows::row(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  const auto begin = static_cast<size_t>(offsets_[i]);
  const size_t count = static_cast<size_t>(offsets_[i + 1]) - begin;
  return {ids_.subspan(begin, count), keep_.empty() ? keep_ : keep_.subspan(begin, count),
          starts_[i] != 0};
}

void TokenRows::add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts) {
  if (!file_.empty()) {
    fail_with_hint("make a dataset in memory and save it", Code::failed_precondition,
                   "rows cannot be added to a token file");
  }
  if (!keep.empty() && own_keep_.empty()) own_keep_.assign(own_ids_.size(), 0);
  own_ids_.insert(own_ids_.end(), ids.begin(), ids.end());
  own_keep_.insert(own_keep_.end(), keep.begin(), keep.end());
  if (!own_keep_.empty()) own_keep_.resize(own_ids_.size(), 0);
  own_offsets_.push_back(static_cast<int64_t>(own_ids_.size()));
  own_starts_.push_back(starts);
  publish();
}

} // namespace dllm::text
