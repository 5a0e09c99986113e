#pragma once
// What the layers keep of all requests between passes: their state slots (model/layers/state.h). The canvas on the host
// is the truth and this a cache of it: whatever is lost is computed again.
//
// On a mesh, row r is of place r % shares along model::request_axes, which keeps it and computes its request.
//
// Positional slots: one row of `capacity` positions per request and layer; rows of the open window may be rewritten.
// Saved slots (snapshot, rolling): a few snapshots per request, each behind a number of final tokens. A pass starts from
// one and saves the state after its own final tokens in another place, so it can be repeated.

#include "decode/pass/pass.h"
#include "decode/request/request.h"
#include "model/layers/state.h"
#include "model/model.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

// One buffer per stack of the model's state, in the order of model::state_stacks.
using StateBuffers = std::vector<graph::BufferRef>;

// What a pass does with the saved slots of one request: places as model::StateValues has them.
struct SavedPass {
  int64_t from = -1, to = -1; // to -1: nothing is saved
  int64_t length = 0;         // positions of the window that are final
};

// Positions that the row of a request of `length` has: whole tiles of keys.
int64_t row_capacity(int64_t length);

// On what the state of a request depends besides its tokens and its span.
struct RowKind {
  // Windows begin so many positions before the first that is not final (PassRequest::begin), and
  // snapshots lie there.
  int64_t shift = 0;
  int64_t method = 0; // its number: how K and V are computed

  friend bool operator==(const RowKind&, const RowKind&) = default;
};

class DecodeState {
public:
  explicit DecodeState(std::shared_ptr<model::Model> model);

  // A row for a request of `length` positions, whose leading `known` tokens are given. Takes the
  // free row that keeps the longest beginning of them; may enlarge the buffers.
  int64_t acquire(int64_t length, std::span<const int32_t> known, const AttentionSpan& span,
                  const RowKind& kind = {});
  // The row keeps its contents until another request needs it.
  void release(int64_t row);

  CacheView view(int64_t row) const;
  // A pass over a window from `begin` on left the state of [0, end) final: of these tokens, which attended only to such
  // tokens. end is an edge of the span.
  void commit(int64_t row, std::span<const int32_t> ids, int64_t begin, int64_t end);
  // Contents from `end` on count no more; saved slots go back to a snapshot before it.
  void rewind(int64_t row, int64_t end);
  // The last position, at most `begin`, at which a pass can start: one with a snapshot, where the model saves any.
  int64_t start(int64_t row, int64_t begin) const;
  SavedPass saved_pass(int64_t row, int64_t begin, int64_t final_end) const;
  // Zeros in place of what these rows hold, which counts no more; the other rows stay.
  void clear(std::span<const int64_t> rows);
  // Nothing is left: after a cancelled pass, or when the weights changed.
  void lose();
  // Loses everything when a pass took the buffers and did not return them.
  void recover();

  // For one pass; between the two calls the state has no buffers. Without a return all is lost.
  StateBuffers take();
  void give_back(StateBuffers buffers);

  const std::vector<model::StateStack>& stacks() const { return stacks_; }
  CacheShape shape() const { return {own_rows(), capacity_, saves_ ? own_rows() : 0}; } // of a rank
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t nowhere() const; // a write index that keeps nothing
  // Where a row lies: the place of the mesh, and its number there.
  int64_t share_of(int64_t row) const { return row % shares_; }
  int64_t own_row(int64_t row) const { return row / shares_; }
  int64_t bytes() const;
  int64_t reused() const { return reused_; } // positions that were not computed again

private:
  struct Snapshot {
    int64_t position = 0; // it is the state after so many tokens
    int64_t place = 0;    // 0 .. model::kSnapshots - 1
  };
  struct Row {
    bool used = false;
    bool spoiled = false;            // its contents are left behind when the buffers are made anew
    std::vector<int32_t> tokens;     // whose state is final
    std::vector<Snapshot> snapshots; // by position, ascending
    AttentionSpan span;
    RowKind kind;
    uint64_t generation = 0;
    uint64_t last_use = 0;
  };
  int64_t own_rows() const { return rows() / shares_; }
  std::vector<int64_t> used_rows() const; // by share
  int64_t saved_edge(const Row& row, int64_t end) const;
  int64_t best_row(std::span<const int32_t> known, const AttentionSpan& span, const RowKind& kind,
                   int64_t* common) const;
  void resize(int64_t rows, int64_t capacity);
  Tensor widened(size_t stack, int64_t rows, int64_t capacity) const;

  std::shared_ptr<model::Model> model_;
  const std::vector<model::StateStack> stacks_;
  const bool saves_; // any of the stacks is saved
  const int64_t shares_;
  StateBuffers buffers_;
  std::vector<Row> rows_;
  int64_t capacity_ = 0;
  uint64_t clock_ = 0;
  int64_t reused_ = 0;
};

} // namespace dllm::decode
