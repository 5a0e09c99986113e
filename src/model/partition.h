#pragma once
// How the ranks of a mesh share one weight (out, in).

#include "graph/mesh.h"

#include <cstdint>

namespace dllm::model {

enum class PartitionKind {
  none,    // every rank has all of it
  columns, // a rank has some of the outputs: y is this rank's part
  rows, // a rank has some of the inputs: x is this rank's part, products are summed over the ranks
  gathered, // cut along the outputs where it lies, whole while it is used (FSDP)
};

struct Partition {
  PartitionKind kind = PartitionKind::none;
  graph::Axis axis = graph::Axis::tensor;
  int64_t ranks = 1;

  bool cuts() const { return kind != PartitionKind::none && ranks > 1; }
  friend bool operator==(const Partition&, const Partition&) = default;
};

} // namespace dllm::model
