#pragma once
// What the gradient of scan keeps of the forward body, and what the backward body computes again (scan_grad.cpp).

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dllm::graph::ops {

// The body of a scan, then its gradient, as one graph.
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
  std::vector<Value> inputs; // of the body, in work
  std::vector<Value> grads;  // in work, one per operand that a gradient is computed of

  const Node& node(int32_t number) const { return work.nodes()[static_cast<size_t>(number)]; }
  // Bytes of a value where it is kept.
  int64_t bytes_of(int32_t id) const {
    const ValueType& type = work.type(id);
    return type.shape.count() * dtype_size(is_rounded(id) ? DType::bf16 : type.dtype);
  }
  // Whether it is kept as bf16. Not what the scan gives anyway, and not statistics of rows: the results of an operation after its
  // first.
  bool is_rounded(int32_t id) const {
    if (!plan.round_kept || work.type(id).dtype != DType::f32 || kept_already(id).defined())
      return false;
    const int32_t producer = work.producer(id);
    return producer < 0 || node(producer).outputs[0] == id;
  }
  // The result of the scan that holds a value of the forward body for every step, if there is one.
  Value kept_already(int32_t id) const {
    for (size_t i = plan.carry; i < body.outputs().size(); ++i) {
      if (copy.at(body.outputs()[i].value).id == id) return call.outputs[i];
    }
    return {};
  }
};

// A value of the work graph that the backward scan receives.
struct Passed {
  int32_t work;  // value id
  Value outside; // the scan's operand or result in the outer graph
};

struct ScanKept {
  std::vector<bool> runs; // nodes of the work graph that the backward body has
  std::vector<Passed> residuals, layers, consts;

  bool is_kept(int32_t id) const {
    return std::any_of(residuals.begin(), residuals.end(),
                       [&](const Passed& kept) { return kept.work == id; });
  }
};

// `outside` of residuals is not set yet.
ScanKept choose_kept(const ScanWork& work);

} // namespace dllm::graph::ops
