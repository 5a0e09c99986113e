// Builds the gradient of scan. The body is copied and extended by its gradient; the added nodes
// become the body of a scan in the other direction. The values of the forward body that they need
// are kept as additional per-step results of the forward scan (scan_kept.h). With remat only the
// carries are kept, and the backward body recomputes the other values.

#include "base/error.h"
#include "graph/ops/build.h"
#include "graph/ops/scan.h"
#include "graph/ops/scan_kept.h"
#include "graph/passes.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::graph::ops {
namespace {

// Returns an unused input name: `name`, with primes appended if it is taken.
std::string free_name(const Graph& graph, std::string name) {
  while (graph.find_input(name) >= 0) name += '\'';
  return name;
}

class ScanGradient {
public:
  explicit ScanGradient(const VjpCall& call) : work_(call) {}

  std::vector<Value> run() {
    extend_body();
    kept_ = choose_kept(work_);
    keep_residuals();
    build_backward();
    return launch();
  }

private:
  void extend_body() {
    work_.copy.inputs();
    for (const GraphInput& input : work_.body.inputs())
      work_.inputs.push_back(work_.copy.at(input.value));
    for (size_t n = 0; n < work_.body.nodes().size(); ++n) work_.copy.node(static_cast<int32_t>(n));
    work_.forward_nodes = work_.work.nodes().size();

    std::vector<Value> outputs, seeds, wrt;
    for (size_t i = 0; i < work_.body.outputs().size(); ++i) {
      const Value result = work_.copy.at(work_.body.outputs()[i].value);
      const bool carried = i < work_.plan.carry;
      if (!is_differentiable(result.dtype()) || (!carried && !work_.call.grads[i].defined()))
        continue;
      const std::string name = free_name(work_.work, "d:" + work_.body.outputs()[i].name);
      const Value seed = work_.work.input(name, result.type());
      (carried ? carry_seeds_ : stacked_seeds_).push_back({seed.id, work_.call.grads[i]});
      outputs.push_back(result);
      seeds.push_back(seed);
    }
    for (size_t i = 0; i < work_.inputs.size(); ++i) {
      const bool needed = work_.plan.is_carry(i) ? is_differentiable(work_.inputs[i].dtype())
                                                 : work_.call.wanted[i];
      if (!needed) continue;
      wrt.push_back(work_.inputs[i]);
      wrt_.push_back(i);
    }
    work_.grads = pull_back(work_.work, outputs, seeds, wrt);
    for (size_t i = 0; i < wrt.size(); ++i) {
      if (work_.plan.is_carry(wrt_[i]) && !work_.grads[i].defined()) {
        const ValueType type = wrt[i].type();
        work_.grads[i] = vary(zeros_of(work_.work, type), type.axes);
      }
    }
  }

  // Makes every residual a per-step result of the forward scan, unless it is a result already.
  void keep_residuals() {
    // With remat inner scans keep their original bodies, because the backward body contains the
    // widened copies.
    const Graph& source = work_.plan.remat ? work_.body : work_.work;
    auto wide = std::make_shared<Graph>(work_.body.name());
    Cloner cloner(source, *wide);
    for (size_t i = 0; i < work_.inputs.size(); ++i) {
      const GraphInput& input = work_.body.inputs()[i];
      const int32_t id = work_.plan.remat ? input.value : work_.inputs[i].id;
      cloner.map(id, wide->input(input.name, work_.body.type(input.value), input.is_parameter));
    }
    for (size_t n = 0; n < work_.forward_nodes; ++n) cloner.node(static_cast<int32_t>(n));
    for (const GraphOutput& output : work_.body.outputs()) {
      wide->output(output.name,
                   cloner.at(work_.plan.remat ? output.value : work_.copy.at(output.value).id));
    }
    std::vector<size_t> added;
    for (size_t r = 0; r < kept_.residuals.size(); ++r) {
      kept_.residuals[r].outside = work_.kept_already(kept_.residuals[r].work);
      if (kept_.residuals[r].outside.defined()) continue;
      const Value saved = cloner.at(in_source(kept_.residuals[r].work));
      wide->output("saved:" + std::to_string(wide->outputs().size()),
                   work_.is_rounded(kept_.residuals[r].work) ? convert(saved, DType::bf16) : saved);
      added.push_back(r);
    }
    if (added.empty()) return;
    const int32_t node = work_.call.graph.producer(work_.call.outputs[0].id);
    const std::vector<Value> kept = work_.call.graph.widen_scan(node, wide);
    for (size_t i = 0; i < added.size(); ++i) kept_.residuals[added[i]].outside = kept[i];
  }

  // Returns the id in the source graph of a value of the work graph. With remat the source is the
  // body, and residuals are carries.
  int32_t in_source(int32_t work) const {
    if (!work_.plan.remat) return work;
    for (size_t i = 0; i < work_.inputs.size(); ++i) {
      if (work_.inputs[i].id == work) return work_.body.inputs()[i].value;
    }
    fail(Code::internal, "[scan] body {} keeps a value that is not a carry", work_.body.name());
  }

  void pass(Cloner& cloner, const Passed& value, size_t number) {
    std::string name = "kept:" + std::to_string(number);
    bool is_parameter = false;
    for (const GraphInput& input : work_.work.inputs()) {
      if (input.value != value.work) continue;
      name = input.name;
      is_parameter = input.is_parameter;
    }
    ValueType type = work_.work.type(value.work);
    const DType computed = type.dtype;
    // The type is bf16 if the value is kept rounded.
    if (value.outside.defined()) type.dtype = value.outside.dtype();
    const Value given = backward_->input(free_name(*backward_, name), type, is_parameter);
    cloner.map(value.work, convert(given, computed));
  }

  void build_backward() {
    backward_ = std::make_shared<Graph>(work_.body.name() + ".grad");
    Cloner cloner(work_.work, *backward_);
    std::vector<Value> sums; // one per wanted const that has a gradient
    for (size_t i = 0; i < carry_seeds_.size(); ++i) pass(cloner, carry_seeds_[i], i);
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (!is_summed(i)) continue;
      sums.push_back(backward_->input(name_of("sum:", i), sum_type(i)));
    }
    for (size_t i = 0; i < stacked_seeds_.size(); ++i) pass(cloner, stacked_seeds_[i], i);
    for (size_t i = 0; i < kept_.layers.size(); ++i) pass(cloner, kept_.layers[i], i);
    for (size_t i = 0; i < kept_.residuals.size(); ++i) pass(cloner, kept_.residuals[i], i);
    for (size_t i = 0; i < kept_.consts.size(); ++i) pass(cloner, kept_.consts[i], i);
    for (size_t n = work_.forward_nodes; n < kept_.runs.size(); ++n) {
      if (kept_.runs[n]) add_node(cloner, static_cast<int32_t>(n));
    }
    for (Value grad : work_.grads) {
      if (grad.defined()) add_producer(cloner, grad.id);
    }
    size_t next = 0;
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (work_.plan.is_carry(wrt_[i]))
        backward_->output(name_of("d:", i), cloner.at(work_.grads[i].id));
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (!is_summed(i)) continue;
      const Value grad = vary(convert(cloner.at(work_.grads[i].id), DType::f32),
                              work_.inputs[wrt_[i]].type().axes);
      backward_->output(name_of("sum:", i), add(sums[next++], grad));
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (is_stacked(i)) backward_->output(name_of("d:", i), cloner.at(work_.grads[i].id));
    }
  }

  // Adds a node. A node of the forward body is repeated just before the first node that reads it.
  void add_node(Cloner& cloner, int32_t n) {
    for (int32_t operand : work_.work.nodes()[static_cast<size_t>(n)].inputs)
      add_producer(cloner, operand);
    cloner.node(n);
  }
  void add_producer(Cloner& cloner, int32_t id) {
    if (!cloner.has(id)) add_node(cloner, work_.work.producer(id));
  }

  // Returns the type of a const's gradient, which is summed over the steps in f32.
  ValueType sum_type(size_t i) const {
    ValueType type = work_.inputs[wrt_[i]].type();
    type.dtype = DType::f32;
    return type;
  }

  std::string name_of(const char* prefix, size_t i) const {
    return prefix + work_.body.inputs()[wrt_[i]].name;
  }

  bool is_stacked(size_t i) const {
    return work_.plan.is_per_layer(wrt_[i]) && work_.grads[i].defined();
  }
  bool is_summed(size_t i) const {
    return !work_.plan.is_carry(wrt_[i]) && !work_.plan.is_per_layer(wrt_[i]) &&
           work_.grads[i].defined();
  }

  std::vector<Value> launch() {
    std::vector<Value> carry, per_layer, consts, results(work_.call.inputs.size());
    for (const Passed& seed : carry_seeds_) {
      carry.push_back(seed.outside.defined()
                          ? seed.outside
                          : zeros_of(work_.call.graph, work_.work.type(seed.work)));
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (is_summed(i)) carry.push_back(zeros_of(work_.call.graph, sum_type(i)));
    }
    for (const auto* group : {&stacked_seeds_, &kept_.layers, &kept_.residuals}) {
      for (const Passed& value : *group) per_layer.push_back(value.outside);
    }
    for (const Passed& value : kept_.consts) consts.push_back(value.outside);
    if (carry.empty() && per_layer.empty()) return results;
    const ScanOptions options{work_.plan.begin, work_.plan.end, !work_.plan.reverse, false};
    const ScanResult made = scan(backward_, carry, per_layer, consts, work_.plan.count, options);
    size_t next_carry = 0, next_stacked = 0;
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (work_.plan.is_carry(wrt_[i])) results[wrt_[i]] = made.carry[next_carry++];
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (is_summed(i)) results[wrt_[i]] = made.carry[next_carry++];
      if (is_stacked(i)) results[wrt_[i]] = made.stacked[next_stacked++];
    }
    return results;
  }

  ScanWork work_;
  ScanKept kept_;
  std::vector<size_t> wrt_; // the operands that have a gradient
  std::vector<Passed> carry_seeds_, stacked_seeds_;
  std::shared_ptr<Graph> backward_;
};

} // namespace

std::vector<Value> scan_vjp(const VjpCall& call) {
  return ScanGradient(call).run();
}

} // namespace dllm::graph::ops
