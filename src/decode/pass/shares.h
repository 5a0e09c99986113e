#pragma once
// The rows of a pass on a mesh: each place along model::request_axes computes the rows of its requests, in a program that
// has as many rows on every rank; what it predicts is gathered.

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

// Where a row of a pass is computed: the place along the axes, and the row of the program there.
struct RowPlace {
  int64_t share = 0, row = 0;
};

class PassShares {
public:
  // Cached rows lie where their state is, the others where there are fewest.
  PassShares(std::span<const PassRow> rows, const DecodeState& state, const graph::Mesh& mesh);

  int64_t count() const { return static_cast<int64_t>(numbers_.size()); }
  const std::vector<RowPlace>& places() const { return places_; } // by row
  // Numbers of the rows of one share, ascending.
  const std::vector<size_t>& numbers(int64_t share) const {
    return numbers_[static_cast<size_t>(share)];
  }
  int64_t most_rows() const;
  // The share of a count that all have together, rounded up.
  int64_t part_of(int64_t all) const { return (all + count() - 1) / count(); }

  // The elements of one share.
  template <class T> std::vector<T> of(int64_t share, std::span<const T> all) const {
    std::vector<T> own;
    for (const size_t i : numbers(share)) own.push_back(all[i]);
    return own;
  }
  // The arrays of every share: one set, or one for each.
  std::vector<Batch> feeds(const std::function<Batch(int64_t share)>& make) const;

private:
  std::vector<RowPlace> places_;
  std::vector<std::vector<size_t>> numbers_; // by share
};

// x (n, ...) of every share, in their order: (shares * n, ...), equal on all ranks. Itself on a mesh without shares.
graph::Value gather_shares(graph::Value x, const graph::Mesh& mesh);

} // namespace dllm::decode
