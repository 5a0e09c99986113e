#include "decode/pass/shares.h"

#include "graph/ops.h"
#include "model/layers/state.h"

#include <algorithm>

namespace dllm::decode {

PassShares::PassShares(std::span<const PassRow> rows, const DecodeState& state,
                       const graph::Mesh& mesh)
    : numbers_(static_cast<size_t>(mesh.size(model::request_axes(mesh)))) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto fewest = std::ranges::min_element(numbers_, {}, &std::vector<size_t>::size);
    const int64_t share =
        rows[i].pass->cached ? state.share_of(rows[i].cache_row) : fewest - numbers_.begin();
    std::vector<size_t>& own = numbers_[static_cast<size_t>(share)];
    places_.push_back({share, static_cast<int64_t>(own.size())});
    own.push_back(i);
  }
}

int64_t PassShares::most_rows() const {
  return static_cast<int64_t>(
      std::ranges::max_element(numbers_, {}, &std::vector<size_t>::size)->size());
}

std::vector<Batch> PassShares::feeds(const std::function<Batch(int64_t share)>& make) const {
  std::vector<Batch> made;
  for (int64_t share = 0; share < count(); ++share) made.push_back(make(share));
  return made;
}

graph::Value gather_shares(graph::Value x, const graph::Mesh& mesh) {
  const graph::AxisSet axes = model::request_axes(mesh);
  // The later axis changes faster, so it is gathered first.
  for (const graph::Axis axis : {graph::Axis::fsdp, graph::Axis::data}) {
    if (axes.has(axis)) x = graph::all_gather(x, axis, 0, mesh.size(axis), true);
  }
  return x;
}

} // namespace dllm::decode
