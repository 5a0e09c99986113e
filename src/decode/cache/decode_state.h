#pragma once
// DecodeState holds the state slots (model/layers/state.h) that the layers keep of all requests
// between passes. The canvas on the host is the truth and this state is a cache of it. Lost state
// is computed again.
//
// On a mesh, row r belongs to place r % shares along model::request_axes. That place stores the row
// and computes its request.
//
// Positional slots have one row of `capacity` positions per request and layer. Positions that are
// not final may be written again.
// Saved slots (snapshot, rolling) have a few snapshots per request. A snapshot is the state after a
// number of final tokens. A pass starts from one snapshot and saves the state after its own final
// tokens in another place, so the pass can be repeated.

#include "decode/cache/row_copy.h"
#include "decode/pass/pass.h"
#include "decode/request/request.h"
#include "model/layers/state.h"
#include "model/model.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dllm::decode {

// One buffer per stack of the model's state, in the order of model::state_stacks.
using StateBuffers = std::vector<graph::BufferRef>;

// The use of the saved slots of one request in a pass. Places are as in model::StateValues.
struct SavedPass {
  int64_t from = -1, to = -1; // from -1: the request begins; to -1: nothing is saved
  int64_t length = 0;         // number of final positions of the window before the saved state
};

// Returns the capacity of the row of a request of `length` positions: whole tiles of keys.
int64_t row_capacity(int64_t length);

// The properties of a request on which its state depends, in addition to its tokens and its span.
struct RowKind {
  // Windows begin this number of positions before the first position that is not final
  // (PassRequest::begin), and snapshots are taken there.
  int64_t shift = 0;
  int64_t method = 0; // number of the method, which defines how K and V are computed
  // Parts of the model that compute the state; not set: the base and all its adapters.
  std::optional<model::PartList> parts = {};

  friend bool operator==(const RowKind&, const RowKind&) = default;
};

class DecodeState {
public:
  // Fewer positions are computed again, and not copied.
  static constexpr int64_t kLeastCopied = 16;

  explicit DecodeState(std::shared_ptr<model::Model> model);

  // Returns a row for a request of `length` positions whose first tokens are `known`. Takes the
  // free row that keeps the longest common beginning. A beginning that a row in use has, and that
  // is longer, is copied. May enlarge the buffers.
  int64_t acquire(int64_t length, std::span<const int32_t> known, const AttentionSpan& span,
                  const RowKind& kind = {});
  // Returns the view of the row that acquire() would return for such a request now.
  CacheView offer(std::span<const int32_t> known, const AttentionSpan& span,
                  const RowKind& kind = {}) const;
  // Returns the number of leading positions that a request of these tokens and this kind could take
  // from the row, if [0, end) of `others` were final there.
  static int64_t common_beginning(std::span<const int32_t> others, const AttentionSpan& others_span,
                                  std::span<const int32_t> known, const AttentionSpan& span,
                                  int64_t end);
  // Whether a row can be copied to any other. On a mesh with shares a copy is on the share of its
  // row, and made only where that share has as few requests as others.
  bool copies_freely() const { return shares_ == 1; }
  // Frees the row. It keeps its contents until another request takes it.
  void release(int64_t row);

  CacheView view(int64_t row) const;
  // Records a pass over a window from `begin` on, after which the state of [0, end) is final. The
  // state belongs to the tokens `ids`, which attended only to final tokens. `end` is an edge of the
  // span.
  void commit(int64_t row, std::span<const int32_t> ids, int64_t begin, int64_t end);
  // Drops the contents from `end` on. With saved slots, drops the contents after the last snapshot
  // before `end`.
  void rewind(int64_t row, int64_t end);
  // Returns the last position, at most `begin`, at which a pass can start. If the model saves
  // snapshots, this is the position of one.
  int64_t start(int64_t row, int64_t begin) const;
  // Returns which snapshot a pass over a window from `begin` on starts from, and which it saves.
  SavedPass saved_pass(int64_t row, int64_t begin, int64_t final_end) const;
  // Sets the contents of these rows to zero and forgets their tokens. Other rows stay.
  void clear(std::span<const int64_t> rows);
  // Forgets the contents of all rows, after a cancelled pass or when the weights changed. The
  // second form forgets only the rows whose kind `is_lost` accepts.
  void lose();
  void lose(const std::function<bool(const RowKind&)>& is_lost);
  // Makes new buffers and forgets all contents if a pass took the buffers and did not return them.
  void recover();

  // Take the buffers for a pass, and return them after it. Between the two calls the state has no
  // buffers. If they are not returned, all contents are lost.
  StateBuffers take();
  void give_back(StateBuffers buffers);

  const std::vector<model::StateStack>& stacks() const { return stacks_; }
  // Returns the size of the cache on one rank.
  CacheShape shape() const { return {own_rows(), capacity_, saves_ ? own_rows() : 0}; }
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t nowhere() const; // a write index that writes nothing
  // The place of the mesh that stores a row, and the number of the row there.
  int64_t share_of(int64_t row) const { return row % shares_; }
  int64_t own_row(int64_t row) const { return row / shares_; }
  int64_t bytes() const;
  int64_t reused() const { return reused_; } // positions that were found instead of computed

private:
  struct Snapshot {
    int64_t position = 0; // it is the state after this number of tokens
    int64_t place = 0;    // 0 .. model::kSnapshots - 1
  };
  struct Row {
    bool used = false;
    bool spoiled = false;            // its contents are not copied when new buffers are made
    std::vector<int32_t> tokens;     // tokens whose state is final
    std::vector<Snapshot> snapshots; // ascending by position
    AttentionSpan span;
    RowKind kind;
    uint64_t generation = 0; // no other row has this number
    uint64_t last_use = 0;
  };
  int64_t own_rows() const { return rows() / shares_; }
  std::vector<int64_t> used_rows() const; // number of used rows by share
  int64_t saved_edge(const Row& row, int64_t end) const;
  // What a request would get: a row, -1 for a new one, and the positions that are not computed
  // again. donor: the row in use that they are copied from; -1: the row has them.
  struct Offer {
    int64_t row = -1, kept = 0, donor = -1;
  };
  Offer best_row(std::span<const int32_t> known, const AttentionSpan& span,
                 const RowKind& kind) const;
  int64_t oldest_free_row(int64_t share) const; // -1: none
  int64_t kept_by(const Row& row, std::span<const int32_t> known, const AttentionSpan& span,
                  const RowKind& kind) const;
  void copy_beginning(int64_t donor, int64_t row, int64_t count);
  void resize(int64_t rows, int64_t capacity);
  Tensor widened(size_t stack, int64_t rows, int64_t capacity) const;

  std::shared_ptr<model::Model> model_;
  const std::vector<model::StateStack> stacks_;
  const bool saves_; // whether any stack has saved slots
  const int64_t shares_;
  StateBuffers buffers_;
  std::vector<Row> rows_;
  RowCopy copy_;
  uint64_t generations_ = 0; // given to rows so far
  int64_t capacity_ = 0;
  uint64_t clock_ = 0;
  int64_t reused_ = 0;
};

} // namespace dllm::decode
