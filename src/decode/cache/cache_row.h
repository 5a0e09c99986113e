#pragma once
// A cache row is the row of a decode state that one request holds. It is taken when a pass needs
// it, and it is released with its owner.

#include "decode/cache/decode_state.h"
#include "decode/pass/pass.h"
#include "decode/request/request.h"

#include <cstdint>

namespace dllm::decode {

class CacheRow {
public:
  // The state outlives the row.
  CacheRow(DecodeState& state, const RowKind& kind) : state_(&state), kind_(kind) {}
  ~CacheRow() { release(); }
  CacheRow(CacheRow&& other) noexcept;
  CacheRow& operator=(CacheRow&&) = delete;

  int64_t number() const { return number_; } // -1: no row is taken
  // Returns the view of the row, or of the row that place() would take for the request.
  CacheView view(const Request& request) const;
  // Returns the number of leading positions that a request without a row could copy from the row of
  // another one, if [0, end) of it were final. 0: it has about as many without that row.
  int64_t shared_after(const Request& request, const CacheRow& other, const Request& others,
                       int64_t end) const;
  // Takes a row if the pass is cached and none is taken. Moves the begin of the pass to where the
  // state can go on. The positions in between are computed again.
  void place(const Request& request, PassRequest& pass);
  // Records what is final after a pass. A window over final positions may have changed them, so
  // positions that are not final any more are dropped.
  void keep_final(const Request& request, const PassRequest& pass);
  // Sets the contents of the row to zero, because they may hold NaN or infinity.
  void clear();
  // Frees the row, which keeps its contents until another request takes it.
  void release();

private:
  DecodeState* state_;
  RowKind kind_;
  int64_t number_ = -1;
};

} // namespace dllm::decode
