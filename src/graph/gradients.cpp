#include "graph/passes.h"

#include "base/error.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "graph/ops/build.h"

#include <algorithm>
#include <memory>
#include <string_view>

namespace dllm::graph {

bool is_differentiable(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16;
}

namespace {

class Reverse {
public:
  Reverse(Graph& graph, int32_t first_node)
      : graph_(graph), first_(first_node), last_(static_cast<int32_t>(graph.nodes().size())) {
    const auto count = static_cast<size_t>(graph.value_count());
    reached_.resize(count);
    grads_.resize(count);
  }

  void want(std::span<const Value> wrt) {
    for (Value x : wrt) reached_[index(x.id)] = true;
    for (int32_t n = first_; n < last_; ++n) reach(graph_.nodes()[static_cast<size_t>(n)]);
  }

  void seed(Value value, Value grad) {
    if (reached_[index(value.id)]) accumulate(value, grad, "seed");
  }

  void run() {
    for (int32_t n = last_; n-- > first_;) step(n);
  }

  Value grad(Value x) const { return grads_[index(x.id)]; }

private:
  static size_t index(int32_t id) { return static_cast<size_t>(id); }

  // Marks the results that depend on a wanted value: an operand depends on it, and the operation
  // lets gradients pass.
  void reach(const Node& node) {
    if (node.op->stops_gradient) return;
    bool any = false;
    for (int32_t id : node.inputs) any = any || reached_[index(id)];
    if (!any) return;
    for (int32_t id : node.outputs) {
      // A result added by widen_scan may be newer than this table.
      if (index(id) < reached_.size() && is_differentiable(graph_.type(id).dtype))
        reached_[index(id)] = true;
    }
  }

  void accumulate(Value value, Value grad, const char* from) {
    const ValueType& type = value.type();
    // An operation that widens an operand (a table, a weight) returns its gradient in f32.
    if (is_differentiable(type.dtype)) grad = convert(grad, type.dtype);
    if (!(grad.shape() == type.shape) || grad.dtype() != type.dtype ||
        !type.axes.contains(grad.type().axes)) {
      fail(Code::internal, "[{}] gradient {} does not fit {}", from, grad.type().text(),
           type.text());
    }
    grad = vary(grad, type.axes);
    Value& sum = grads_[index(value.id)];
    sum = sum.defined() ? join(sum, grad) : grad;
  }

  // Adds two gradients. A gradient of rows scattered onto zeros (an embedding) is scattered into
  // the sum instead, because the table is large.
  Value join(Value sum, Value grad) {
    const int32_t producer = graph_.producer(grad.id);
    if (producer >= 0) {
      const Node& node = graph_.nodes()[index(producer)];
      const bool scatters =
          std::string_view(node.op->name) == "scatter_add" && is_zero(node.inputs[0]);
      if (scatters)
        return scatter_add(sum, graph_.value(node.inputs[1]), graph_.value(node.inputs[2]));
    }
    if (sum.dtype() == DType::f32) return add(sum, grad);
    return convert(add(convert(sum, DType::f32), convert(grad, DType::f32)), sum.dtype());
  }

  bool is_zero(int32_t id) const {
    const int32_t producer = graph_.producer(id);
    if (producer < 0) return false;
    const Node& node = graph_.nodes()[index(producer)];
    if (std::string_view(node.op->name) == "broadcast") return is_zero(node.inputs[0]);
    return std::string_view(node.op->name) == "constant" && node.literal.dtype() == DType::f32 &&
           node.literal.count() == 1 && node.literal.as<float>()[0] == 0.0f;
  }

  void step(int32_t n) {
    // A copy, because nodes move as the graph grows.
    const Node node = graph_.nodes()[static_cast<size_t>(n)];
    if (node.op->stops_gradient) return;
    std::vector<Value> inputs, outputs, grads;
    bool arrives = false, needed = false;
    for (int32_t id : node.outputs) {
      outputs.push_back(graph_.value(id));
      grads.push_back(index(id) < grads_.size() ? grads_[index(id)] : Value{});
      arrives = arrives || grads.back().defined();
    }
    auto wanted = std::make_unique<bool[]>(node.inputs.size() + 1);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(graph_.value(node.inputs[i]));
      wanted[i] = reached_[index(node.inputs[i])] && is_differentiable(inputs.back().dtype());
      needed = needed || wanted[i];
    }
    if (!arrives || !needed) return;
    const std::span<const bool> wanted_inputs(wanted.get(), node.inputs.size());
    const auto made = pull(node, inputs, outputs, grads, wanted_inputs);
    for (size_t i = 0; i < made.size(); ++i) {
      if (wanted_inputs[i] && made[i].defined()) accumulate(inputs[i], made[i], node.op->name);
    }
  }

  std::vector<Value> pull(const Node& node, std::span<const Value> inputs,
                          std::span<const Value> outputs, std::span<const Value> grads,
                          std::span<const bool> wanted) {
    if (node.op->vjp != nullptr)
      return node.op->vjp({graph_, node, inputs, outputs, grads, wanted});
    if (node.op->decompose == nullptr) {
      const std::string which = node.bodies.empty() ? "" : " " + node.bodies.back()->name();
      fail_with_hint("put stop_gradient before it, or use scan", Code::invalid_argument,
                     "[{}]{} has no gradient", node.op->name, which);
    }
    const auto first = static_cast<int32_t>(graph_.nodes().size());
    const auto plain = node.op->decompose(graph_, node, inputs);
    std::vector<Value> wrt;
    for (size_t i = 0; i < inputs.size(); ++i) {
      // An operand that is given twice gets its whole gradient once.
      if (wanted[i] && std::find(wrt.begin(), wrt.end(), inputs[i]) == wrt.end())
        wrt.push_back(inputs[i]);
    }
    const std::vector<Value> made = pull_back(graph_, plain, grads, wrt, first);
    std::vector<Value> results(inputs.size());
    for (size_t i = 0; i < wrt.size(); ++i) {
      const auto at = std::find(inputs.begin(), inputs.end(), wrt[i]) - inputs.begin();
      results[static_cast<size_t>(at)] = made[i];
    }
    return results;
  }

  Graph& graph_;
  int32_t first_, last_;
  std::vector<bool> reached_;
  std::vector<Value> grads_;
};

} // namespace

std::vector<Value> pull_back(Graph& graph, std::span<const Value> outputs,
                             std::span<const Value> seeds, std::span<const Value> wrt,
                             int32_t first_node) {
  Reverse reverse(graph, first_node);
  std::vector<Value> wanted_inputs;
  for (Value x : wrt) {
    if (is_differentiable(x.dtype())) wanted_inputs.push_back(x);
  }
  reverse.want(wanted_inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (seeds[i].defined()) reverse.seed(outputs[i], seeds[i]);
  }
  reverse.run();
  std::vector<Value> grads;
  for (Value x : wrt) grads.push_back(reverse.grad(x));
  return grads;
}

namespace {

std::string name_of(const Graph& graph, Value x) {
  for (const GraphInput& input : graph.inputs()) {
    if (input.value == x.id) return input.name;
  }
  return fmt::format("value {}", x.id);
}

// Fails if x reaches the loss only through a conversion. If the loss does not depend on x, or only
// through decisions, its gradient is zeros.
void expect_no_loss(const Graph& graph, Value loss, Value x) {
  const std::string cut = cut_by_conversion(graph, x, loss);
  if (cut.empty()) return;
  fail_with_hint("put stop_gradient before the conversion, or freeze the parameter",
                 Code::invalid_argument,
                 "[gradients] {} {} reaches the loss only through {}, which has no gradient",
                 name_of(graph, x), x.type().text(), cut);
}

} // namespace

std::vector<Value> gradients(Value loss, const std::vector<Value>& wrt) {
  Graph& graph = *loss.graph;
  if (loss.dtype() != DType::f32 || loss.rank() != 0) {
    fail(Code::invalid_argument, "[gradients] loss is {}, expected an f32 scalar",
         loss.type().text());
  }
  if (!loss.type().axes.empty()) {
    fail_with_hint("all_reduce it first", Code::invalid_argument,
                   "[gradients] loss {} differs from rank to rank: a reduction is missing",
                   loss.type().text());
  }
  for (Value x : wrt) {
    if (x.dtype() == DType::f32) continue;
    fail(Code::invalid_argument, "[gradients] {} has no gradient, only f32 has", x.type().text());
  }
  const std::vector<Value> outputs{loss}, seeds{scalar(graph, 1.0f)};
  std::vector<Value> grads = pull_back(graph, outputs, seeds, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (grads[i].defined()) continue;
    expect_no_loss(graph, loss, wrt[i]);
    const ValueType type = wrt[i].type();
    grads[i] = vary(ops::zeros_of(graph, type), type.axes);
  }
  return grads;
}

} // namespace dllm::graph
