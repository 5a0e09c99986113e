#pragma once
// What makes two passes the same program; everything else is data.

#include "decode/pass/pass_request.h"
#include "decode/request/request.h"
#include "model/config.h"
#include "model/layers/state.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::decode {

// One request in a pass.
struct PassRow {
  const Request* request;
  const PassRequest* pass;
  int64_t cache_row = -1; // in the decode state; -1: not cached
};

struct PassShape {
  int64_t rows, window; // positions
  int64_t capacity;     // of the positions whose predictions are wanted; 0: none are
  int64_t keys;         // of attention in a cached pass; 0: not cached
  int64_t cache_rows;   // of one layer in the state's buffers
  bool guided, soft;
  int64_t saved_rows =
      0; // requests with snapshots in the state; 0: not cached, or the model has none

  // A cached pass writes a state of so many rows and positions.
  model::StateSize state_size() const {
    return {saved_rows > 0 ? saved_rows : 1, saved_rows > 0 ? cache_rows / saved_rows : cache_rows};
  }
  // A guided pass holds every row twice.
  int64_t all_rows() const { return guided ? 2 * rows : rows; }
  int64_t positions() const { return all_rows() * window; }
  friend bool operator==(const PassShape&, const PassShape&) = default;
};

// The next of 1, 2, 3, 4, 6, 8, 12, 16, ... steps: at most half of a program is padding.
int64_t round_up(int64_t count, int64_t step);

// Positions of a head that predicts at least so many.
int64_t head_capacity(int64_t positions);

// Of the cache that cached rows lie in.
struct CacheShape {
  int64_t rows = 0, capacity = 0;
  int64_t saved_rows = 0; // 0 where the model saves no snapshots
};
// Of a pass over these rows, capacity 0. least_rows: as if there were at least so many, so that passes over any of a
// batch's requests share a program; less than that where the padding would be large.
PassShape pass_shape(const model::ModelConfig& config, std::span<const PassRow> rows,
                     const CacheShape& cache, int64_t least_rows = 0);

// Every row of a program is padded to its longest window. So rows of one pass (of one kind) with windows of unlike
// length run as several programs, short windows first: indices of the rows of each, ascending. All in one while that
// computes few positions more, so that an ordinary batch is one launch.
std::vector<std::vector<size_t>> window_groups(std::span<const PassRow> rows);

} // namespace dllm::decode
