#include "decode/cache/cache_row.h"

#include <algorithm>
#include <span>
#include <utility>

namespace dllm::decode {
namespace {

// Returns the tokens before the first open position.
std::span<const int32_t> known_tokens_of(const Request& request) {
  const auto open = std::find(request.states.begin(), request.states.end(), State::masked);
  return std::span<const int32_t>(request.ids)
      .first(static_cast<size_t>(open - request.states.begin()));
}

} // namespace

CacheRow::CacheRow(CacheRow&& other) noexcept
    : state_(other.state_), kind_(other.kind_), number_(std::exchange(other.number_, -1)) {}

CacheView CacheRow::view(const Request& request) const {
  if (number_ >= 0) return state_->view(number_);
  return state_->offer(known_tokens_of(request), request.span, kind_);
}

int64_t CacheRow::shared_after(const Request& request, const CacheRow& other, const Request& others,
                               int64_t end) const {
  if (number_ >= 0 || other.number_ < 0 || !(kind_ == other.kind_) || !state_->copies_freely())
    return 0;
  const int64_t shared = DecodeState::common_beginning(known_tokens_of(others), others.span,
                                                       known_tokens_of(request), request.span, end);
  return shared < view(request).final_end + DecodeState::kLeastCopied ? 0 : shared;
}

void CacheRow::place(const Request& request, PassRequest& pass) {
  if (!pass.cached) return;
  if (number_ < 0)
    number_ = state_->acquire(request.length(), known_tokens_of(request), request.span, kind_);
  if (pass.end <= pass.begin) return;
  const int64_t begin = state_->start(number_, pass.begin);
  if (!pass.ids.empty())
    pass.ids.insert(pass.ids.begin(), request.ids.begin() + begin,
                    request.ids.begin() + pass.begin);
  pass.begin = begin;
}

void CacheRow::keep_final(const Request& request, const PassRequest& pass) {
  if (pass.cached) state_->commit(number_, request.ids, pass.begin, pass.final_end);
}

void CacheRow::clear() {
  if (number_ >= 0) state_->clear({&number_, 1});
}

void CacheRow::release() {
  if (number_ >= 0) state_->release(number_);
  number_ = -1;
}

} // namespace dllm::decode
