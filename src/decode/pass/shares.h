#pragma once
// PassShares distributes the rows of a pass over a mesh. Each place along model::request_axes
// computes its share of the rows. The program has the same number of rows on every rank, and the
// predictions are gathered.

#include "decode/cache/decode_state.h"
#include "decode/pass/pass.h"
#include "graph/graph.h"
#include "graph/mesh.h"
#include "tensor/batch.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dllm::decode {

// Where a row of a pass is computed: the share, and the row of the program there.
struct RowPlace {
  int64_t share = 0, row = 0;
};

class PassShares {
public:
  // Assigns a cached row to the share that stores its state, and any other row to the share with
  // the fewest rows.
  PassShares(std::span<const PassRow> rows, const DecodeState& state, const graph::Mesh& mesh);

  int64_t count() const { return static_cast<int64_t>(numbers_.size()); }
  // Returns the places by row.
  const std::vector<RowPlace>& places() const { return places_; }
  // Returns the numbers of the rows of one share, ascending.
  const std::vector<size_t>& numbers(int64_t share) const {
    return numbers_[static_cast<size_t>(share)];
  }
  // Returns the number of rows of the largest share.
  int64_t most_rows() const;
  // Returns the share's part of a count for all shares, rounded up.
  int64_t part_of(int64_t all) const { return (all + count() - 1) / count(); }

  // Returns the elements of `all` that belong to the rows of one share.
  template <class T> std::vector<T> of(int64_t share, std::span<const T> all) const {
    std::vector<T> own;
    for (const size_t i : numbers(share)) own.push_back(all[i]);
    return own;
  }
  // Returns the arrays that `make` makes for every share.
  std::vector<Batch> feeds(const std::function<Batch(int64_t share)>& make) const;

private:
  std::vector<RowPlace> places_;
  std::vector<std::vector<size_t>> numbers_; // by share
};

// Returns x (n, ...) of all shares, in their order: (shares * n, ...), equal on all ranks. Returns
// x on a mesh without shares.
graph::Value gather_shares(graph::Value x, const graph::Mesh& mesh);

} // namespace dllm::decode
