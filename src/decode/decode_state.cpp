#include "decode/decode_state.h"

#include "base/error.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dllm::decode {
namespace {

constexpr int64_t kCapacityStep = 64; // the attention kernel's tiles are counted from key 0

// Equal tokens at the front, cut at an edge both sights have there.
int64_t common_edge(std::span<const int32_t> kept, const AttentionSpan& kept_span,
                    std::span<const int32_t> known, const AttentionSpan& span) {
  if (!(kept_span == span) || !span.is_exact()) return 0;
  const auto end = std::mismatch(kept.begin(), kept.end(), known.begin(), known.end()).first;
  return span.floor(end - kept.begin());
}

} // namespace

int64_t row_capacity(int64_t length) {
  return (length + kCapacityStep - 1) / kCapacityStep * kCapacityStep;
}

DecodeState::DecodeState(std::shared_ptr<model::Model> model) : model_(std::move(model)) {}

int64_t DecodeState::best_row(std::span<const int32_t> known, const AttentionSpan& span,
                              int64_t* common) const {
  int64_t best = -1;
  *common = 0;
  for (int64_t r = 0; r < rows(); ++r) {
    const Row& row = rows_[static_cast<size_t>(r)];
    if (row.used) continue;
    const int64_t edge = common_edge(row.tokens, row.span, known, span);
    const bool older =
        best >= 0 && row.last_use < rows_[static_cast<size_t>(best)].last_use && edge == *common;
    if (best < 0 || edge > *common || older) {
      best = r;
      *common = edge;
    }
  }
  return best;
}

int64_t DecodeState::acquire(int64_t length, std::span<const int32_t> known, const AttentionSpan& span) {
  const int64_t wanted = row_capacity(length);
  int64_t common = 0;
  int64_t found = best_row(known, span, &common);
  if (found < 0) {
    found = rows();
    resize(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(found + 1))),
           std::max(capacity_, wanted));
  } else if (wanted > capacity_) {
    resize(rows(), wanted);
  }
  Row& row = rows_[static_cast<size_t>(found)];
  row.used = true;
  row.span = span;
  row.tokens.resize(static_cast<size_t>(common));
  row.last_use = ++clock_;
  ++row.generation;
  reused_ += common;
  return found;
}

void DecodeState::release(int64_t row) {
  rows_[static_cast<size_t>(row)].used = false;
}

CacheView DecodeState::view(int64_t row) const {
  const Row& kept = rows_[static_cast<size_t>(row)];
  return {static_cast<int64_t>(kept.tokens.size()), kept.generation};
}

void DecodeState::commit(int64_t row, std::span<const int32_t> ids, int64_t end) {
  Row& kept = rows_[static_cast<size_t>(row)];
  const auto first = static_cast<int64_t>(kept.tokens.size());
  if (end > first) kept.tokens.insert(kept.tokens.end(), ids.begin() + first, ids.begin() + end);
}

void DecodeState::rewind(int64_t row, int64_t end) {
  std::vector<int32_t>& tokens = rows_[static_cast<size_t>(row)].tokens;
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(std::max<int64_t>(end, 0))));
}

void DecodeState::lose() {
  for (Row& row : rows_) {
    row.tokens.clear();
    ++row.generation;
  }
}

void DecodeState::recover() {
  if (buffers_.keys != nullptr || rows_.empty()) return;
  lose();
  resize(rows(), capacity_);
}

KvBuffers DecodeState::lend() {
  recover();
  return std::move(buffers_);
}

void DecodeState::give_back(KvBuffers buffers) {
  buffers_ = std::move(buffers);
}

int64_t DecodeState::nowhere() const {
  return model_->config().layers * rows() * capacity_;
}

int64_t DecodeState::bytes() const {
  return 2 * nowhere() * model_->config().kv_size() * dtype_size(model_->config().cache_dtype);
}

// The same contents in buffers of another shape; zeros where nothing was.
Tensor DecodeState::widened(const graph::BufferRef& from, int64_t rows, int64_t capacity) const {
  const model::ModelConfig& config = model_->config();
  Tensor made(config.cache_dtype, Shape{config.layers * rows * capacity, config.kv_size()});
  std::memset(made.mutable_bytes(), 0, static_cast<size_t>(made.byte_size()));
  if (from == nullptr) return made;
  const Tensor old = from->read();
  const int64_t line = config.kv_size() * dtype_size(config.cache_dtype), count = this->rows();
  for (int64_t i = 0; i < config.layers * count; ++i) {
    const int64_t layer = i / count, row = i % count;
    std::memcpy(made.mutable_bytes() + (layer * rows + row) * capacity * line,
                old.bytes() + i * capacity_ * line, static_cast<size_t>(capacity_ * line));
  }
  return made;
}

void DecodeState::resize(int64_t rows, int64_t capacity) {
  constexpr int64_t kMostRows = int64_t{1} << 30; // row numbers are i32, and a layer is added once
  const int64_t all = model_->config().layers * rows * capacity;
  if (all >= kMostRows) {
    fail_with_hint(
        "hold fewer requests at a time, or shorter ones", Code::resource_exhausted,
        "a cache of {} requests of {} positions over {} layers has {} rows, {} are possible", rows,
        capacity, model_->config().layers, all, kMostRows);
  }
  graph::Engine& engine = model_->engine();
  KvBuffers made;
  made.keys = engine.upload(widened(buffers_.keys, rows, capacity));
  made.values = engine.upload(widened(buffers_.values, rows, capacity));
  buffers_ = std::move(made);
  rows_.resize(static_cast<size_t>(rows));
  capacity_ = capacity;
}

} // namespace dllm::decode
