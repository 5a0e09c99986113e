#pragma once
// K and V of the tokens of all requests, kept between steps. The canvas on the host is the truth
// and this a cache of it: whatever is lost is computed again.
//
// Positional slots: one row of `capacity` positions per request and layer; rows of the open window
// may be rewritten. (Snapshot slots, for layers whose state cannot be cut at a position, come with
// the first such family: they move with commit alone.)

#include "decode/ask.h"
#include "decode/request/request.h"
#include "model/model.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

struct KvBuffers {
  graph::BufferRef keys, values; // (layers * rows * capacity, kv_size)
};

// Positions that the row of a request of `length` has: whole tiles of keys.
int64_t row_capacity(int64_t length);

class DecodeState {
public:
  explicit DecodeState(std::shared_ptr<model::Model> model);

  // A row for a request of `length` positions, whose leading `known` tokens are given. Takes the
  // free row that keeps the longest beginning of them; may enlarge the buffers.
  int64_t acquire(int64_t length, std::span<const int32_t> known, const AttentionSpan& span);
  // The row keeps its contents until another request needs it.
  void release(int64_t row);

  CacheView view(int64_t row) const;
  // K and V of [0, end) are final: of these tokens, which saw only such tokens. end is an edge of
  // the span.
  void commit(int64_t row, std::span<const int32_t> ids, int64_t end);
  // Contents from `end` on count no more.
  void rewind(int64_t row, int64_t end);
  // Nothing is left: after a cancelled pass, or when the weights changed.
  void lose();
  // Loses everything when a pass took the buffers and did not give them back.
  void recover();

  // For one pass; between the two calls the state has no buffers. Not giving back loses everything.
  KvBuffers lend();
  void give_back(KvBuffers buffers);

  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t nowhere() const; // a write index that keeps nothing
  int64_t bytes() const;
  int64_t reused() const { return reused_; } // positions that were not computed again

private:
  struct Row {
    bool used = false;
    std::vector<int32_t> tokens; // whose K and V are final
    AttentionSpan span;
    uint64_t generation = 0;
    uint64_t last_use = 0;
  };
  int64_t best_row(std::span<const int32_t> known, const AttentionSpan& span, int64_t* common) const;
  void resize(int64_t rows, int64_t capacity);
  Tensor widened(const graph::BufferRef& from, int64_t rows, int64_t capacity) const;

  std::shared_ptr<model::Model> model_;
  KvBuffers buffers_;
  std::vector<Row> rows_;
  int64_t capacity_ = 0;
  uint64_t clock_ = 0;
  int64_t reused_ = 0;
};

} // namespace dllm::decode
