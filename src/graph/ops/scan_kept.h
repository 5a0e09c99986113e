#pragma once
// Chooses the values of the forward body that the gradient of scan keeps; the backward body
// recomputes the others (scan_grad.cpp).

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dllm::graph::ops {

// The body of a scan and, after it, its gradient, in one work graph.
struct ScanWork {
  explicit ScanWork(const VjpCall& from)
      : call(from), plan(from.node.attributes), body(*from.node.bodies[0]), work(body.name()),
        copy(body, work) {}

  const VjpCall& call;
  ScanPlan plan;
  const Graph& body;
  Graph work;
  Cloner copy; // body -> work
  size_t forward_nodes = 0;
  std::vector<Value> inputs; // inputs of the body, as values of `work`
  std::vector<Value> grads;  // values of `work`, one per operand that has a gradient

  const Node& node(int32_t number) const { return work.nodes()[static_cast<size_t>(number)]; }
  // Returns the bytes of a value if it is kept.
  int64_t bytes_of(int32_t id) const {
    const ValueType& type = work.type(id);
    return type.shape.count() * dtype_size(is_rounded(id) ? DType::bf16 : type.dtype);
  }
  // Returns true if the value is kept as bf16. A result of the scan is not, and neither are row
  // statistics: the results of an operation after its first.
  bool is_rounded(int32_t id) const {
    if (!plan.round_kept || work.type(id).dtype != DType::f32 || kept_already(id).defined())
      return false;
    const int32_t producer = work.producer(id);
    return producer < 0 || node(producer).outputs[0] == id;
  }
  // Returns the scan's stacked result that holds a value of the forward body for every step, or
  // undefined.
  Value kept_already(int32_t id) const {
    for (size_t i = plan.carry; i < body.outputs().size(); ++i) {
      if (copy.at(body.outputs()[i].value).id == id) return call.outputs[i];
    }
    return {};
  }
};

// A value of the work graph that the backward scan receives as an operand.
struct Passed {
  int32_t work;  // value id
  Value outside; // the scan's operand or result in the outer graph
};

struct ScanKept {
  std::vector<bool> runs; // by node of the work graph: the backward body contains it
  std::vector<Passed> residuals, layers, consts;

  bool is_kept(int32_t id) const {
    return std::any_of(residuals.begin(), residuals.end(),
                       [&](const Passed& kept) { return kept.work == id; });
  }
};

// Chooses the kept values. It does not set Passed::outside of the residuals.
ScanKept choose_kept(const ScanWork& work);

} // namespace dllm::graph::ops
