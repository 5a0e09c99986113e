// join_loss_gradients: joins the loss of a head and its gradient into one operation, which computes
// the logits once.

#include "graph/op.h"
#include "graph/ops/build.h"
#include "graph/passes.h"

#include <algorithm>
#include <string_view>

namespace dllm::graph {
namespace {

bool is_op(const Node& node, std::string_view name) {
  return std::string_view(node.op->name) == name;
}

// Copies a graph and replaces each loss and its gradient, where possible, by one operation.
class LossJoiner {
public:
  explicit LossJoiner(const Graph& graph)
      : graph_(graph), made_(std::make_shared<Graph>(graph.name())), cloner_(graph, *made_),
        partner_(graph.nodes().size(), -1) {}

  bool find() {
    bool any = false;
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const int32_t loss = loss_of(static_cast<int32_t>(n));
      if (loss < 0 || partner_[static_cast<size_t>(loss)] >= 0) continue;
      partner_[static_cast<size_t>(loss)] = static_cast<int32_t>(n);
      any = true;
    }
    return any;
  }

  std::shared_ptr<Graph> join() {
    cloner_.inputs();
    for (size_t n = 0; n < graph_.nodes().size(); ++n) copy(static_cast<int32_t>(n));
    cloner_.outputs();
    return made_;
  }

private:
  const Node& node(int32_t n) const { return graph_.nodes()[static_cast<size_t>(n)]; }

  // Returns the loss whose gradient node `n` is, or -1 if they cannot be joined. The operands must
  // be the same, and the row weights must not depend on the loss.
  int32_t loss_of(int32_t n) const {
    const Node& grad = node(n);
    if (!is_op(grad, "linear_cross_entropy_grad")) return -1;
    const size_t shared = grad.inputs.size() - 2;
    const int32_t found = graph_.producer(grad.inputs[shared]);
    if (found < 0 || !is_op(node(found), "linear_cross_entropy")) return -1;
    const Node& loss = node(found);
    const bool same = loss.inputs.size() == shared && loss.outputs[1] == grad.inputs[shared] &&
                      std::equal(loss.inputs.begin(), loss.inputs.end(), grad.inputs.begin()) &&
                      loss.attributes.number("softcap") == grad.attributes.number("softcap");
    return same && !depends(grad.inputs[shared + 1], found) ? found : -1;
  }

  bool depends(int32_t value, int32_t on) const {
    std::vector<bool> seen(graph_.nodes().size(), false);
    std::vector<int32_t> open{value};
    while (!open.empty()) {
      const int32_t producer = graph_.producer(open.back());
      open.pop_back();
      if (producer == on) return true;
      if (producer < 0 || seen[static_cast<size_t>(producer)]) continue;
      seen[static_cast<size_t>(producer)] = true;
      for (int32_t operand : node(producer).inputs) open.push_back(operand);
    }
    return false;
  }

  void need(int32_t value) {
    if (!cloner_.has(value)) copy(graph_.producer(value));
  }

  void copy(int32_t n) {
    const Node& from = node(n);
    if (cloner_.has(from.outputs[0])) return;
    for (int32_t operand : from.inputs) need(operand);
    const int32_t partner = partner_[static_cast<size_t>(n)];
    if (partner < 0) {
      cloner_.node(n);
      return;
    }
    const Node& grad = node(partner);
    need(grad.inputs.back());
    std::vector<Value> inputs = cloner_.at(from.inputs);
    inputs.push_back(cloner_.at(grad.inputs.back()));
    const auto both =
        made_->add(find_op("linear_cross_entropy_with_grad"), inputs, grad.attributes);
    for (size_t i = 0; i < 2; ++i) cloner_.map(from.outputs[i], both[i]);
    for (size_t i = 0; i < grad.outputs.size(); ++i) cloner_.map(grad.outputs[i], both[2 + i]);
  }

  const Graph& graph_;
  std::shared_ptr<Graph> made_;
  Cloner cloner_;
  std::vector<int32_t> partner_; // by node: the gradient that joins a loss, or -1
};

} // namespace

std::shared_ptr<Graph> join_loss_gradients(std::shared_ptr<Graph> graph) {
  LossJoiner joiner(*graph);
  return joiner.find() ? joiner.join() : graph;
}

} // namespace dllm::graph
