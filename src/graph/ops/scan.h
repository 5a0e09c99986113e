#pragma once
// Reads the attributes of a scan node, for scan, its gradient, and passes that count its steps.

#include "graph/graph.h"
#include "graph/op.h"

#include <vector>

namespace dllm::graph::ops {

// The attributes of a scan node. The operands are carry..., per_layer..., consts....
struct ScanPlan {
  size_t carry, per_layer, consts;
  int64_t count, begin, end;
  bool reverse, remat;
  int64_t recompute;
  bool round_kept;

  explicit ScanPlan(const Attributes& a)
      : carry(static_cast<size_t>(a.integer("carry"))),
        per_layer(static_cast<size_t>(a.integer("per_layer"))),
        consts(static_cast<size_t>(a.integer("consts"))), count(a.integer("count")),
        begin(a.integer("begin")), end(a.integer("end")), reverse(a.flag("reverse")),
        remat(a.flag("remat")), recompute(a.integer("recompute")),
        round_kept(a.flag("round_kept")) {}

  size_t inputs() const { return carry + per_layer + consts; }
  bool is_carry(size_t input) const { return input < carry; }
  bool is_per_layer(size_t input) const { return input >= carry && input < carry + per_layer; }
};

// Builds the gradient of scan, which is a scan in the other direction.
std::vector<Value> scan_vjp(const VjpCall& call);

} // namespace dllm::graph::ops
