#pragma once
// The parts of a scan node: where its operands and results are.

#include "graph/graph.h"

namespace dllm::graph::ops {

struct ScanPlan {
  size_t carry, per_layer, consts;
  int64_t count, begin, end;
  bool reverse, remat;

  explicit ScanPlan(const Attributes& a)
      : carry(static_cast<size_t>(a.integer("carry"))),
        per_layer(static_cast<size_t>(a.integer("per_layer"))),
        consts(static_cast<size_t>(a.integer("consts"))), count(a.integer("count")),
        begin(a.integer("begin")), end(a.integer("end")), reverse(a.flag("reverse")),
        remat(a.flag("remat")) {}

  size_t inputs() const { return carry + per_layer + consts; }
  bool is_carry(size_t input) const { return input < carry; }
  bool is_per_layer(size_t input) const { return input >= carry && input < carry + per_layer; }
};

} // namespace dllm::graph::ops
