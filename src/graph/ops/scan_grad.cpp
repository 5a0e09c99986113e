// The gradient of scan. The body is copied and extended by its own gradient; the added nodes become
// the body of a scan in the other direction. What they need of the forward body is kept as extra
// per-step results of the forward scan, or with remat only the carries are, and the backward body
// computes the rest again. What is cheap to compute is never kept where its operands are. Option recompute gives up more
// of what is kept, value by value.

#include "graph/ops/scan.h"

#include "base/error.h"
#include "graph/ops/build.h"
#include "graph/passes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

namespace dllm::graph::ops {
namespace {

// Nodes the backward body repeats instead of keeping their result: moves without arithmetic, and
// gathered weights, which must never be kept (the unsharded model would stay alive).
bool is_repeated(const Graph& graph, const Node& node) {
  constexpr std::string_view kMoves[] = {"all_gather", "axis_index", "broadcast", "constant",
                                         "iota",       "reshape",    "vary"};
  const std::string_view name = node.op->name;
  for (std::string_view move : kMoves) {
    if (name == move) return true;
  }
  const auto size = [&](int32_t id) { return dtype_size(graph.type(id).dtype); };
  return name == "convert" && size(node.inputs[0]) < size(node.outputs[0]);
}

// Operations that cost a pass over memory and no more: elementwise ones, norms and moves. Computed again they give the
// same bits.
bool is_cheap(const Node& node) {
  constexpr std::string_view kCheap[] = {"absolute",
                                         "add",
                                         "clamp",
                                         "concat",
                                         "convert",
                                         "cos",
                                         "divide",
                                         "equal",
                                         "erf",
                                         "exp",
                                         "expm1",
                                         "floor",
                                         "gated_activation",
                                         "greater",
                                         "greater_equal",
                                         "is_finite",
                                         "layer_norm",
                                         "less",
                                         "less_equal",
                                         "log",
                                         "log1p",
                                         "logical_and",
                                         "logical_not",
                                         "logical_or",
                                         "logistic",
                                         "maximum",
                                         "minimum",
                                         "multiply",
                                         "negate",
                                         "not_equal",
                                         "pad",
                                         "reverse",
                                         "rms_norm",
                                         "rope",
                                         "round",
                                         "rsqrt",
                                         "select",
                                         "sign",
                                         "sin",
                                         "slice",
                                         "sqrt",
                                         "subtract",
                                         "tanh",
                                         "transpose"};
  const std::string_view name = node.op->name;
  return std::find(std::begin(kCheap), std::end(kCheap), name) != std::end(kCheap);
}

// The name, with as many primes as it takes to be new.
std::string free_name(const Graph& graph, std::string name) {
  while (graph.find_input(name) >= 0) name += '\'';
  return name;
}

class ScanGradient {
public:
  explicit ScanGradient(const VjpCall& call)
      : call_(call), plan_(call.node.attributes), body_(*call.node.bodies[0]), work_(body_.name()),
        copy_(body_, work_) {}

  std::vector<Value> run() {
    extend_body();
    collect();
    keep_residuals();
    build_backward();
    return launch();
  }

private:
  // A value of the work graph that the backward scan receives.
  struct Passed {
    int32_t work;  // value id in work_
    Value outside; // the scan's operand or result in the outer graph
  };

  void extend_body() {
    copy_.inputs();
    for (const GraphInput& input : body_.inputs()) inputs_.push_back(copy_.at(input.value));
    for (size_t n = 0; n < body_.nodes().size(); ++n) copy_.node(static_cast<int32_t>(n));
    forward_nodes_ = work_.nodes().size();

    std::vector<Value> outputs, seeds, wrt;
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      const Value result = copy_.at(body_.outputs()[i].value);
      const bool carried = i < plan_.carry;
      if (!is_differentiable(result.dtype()) || (!carried && !call_.grads[i].defined())) continue;
      const std::string name = free_name(work_, "d:" + body_.outputs()[i].name);
      const Value seed = work_.input(name, result.type());
      (carried ? carry_seeds_ : stacked_seeds_).push_back({seed.id, call_.grads[i]});
      outputs.push_back(result);
      seeds.push_back(seed);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool needed =
          plan_.is_carry(i) ? is_differentiable(inputs_[i].dtype()) : call_.wanted[i];
      if (!needed) continue;
      wrt.push_back(inputs_[i]);
      wrt_.push_back(i);
    }
    grads_ = pull_back(work_, outputs, seeds, wrt);
    for (size_t i = 0; i < wrt.size(); ++i) {
      if (plan_.is_carry(wrt_[i]) && !grads_[i].defined()) {
        const ValueType type = wrt[i].type();
        grads_[i] = vary(zeros_of(work_, type), type.axes);
      }
    }
  }

  // Decides which nodes run in the backward body and which values reach it from outside: first every value of the
  // forward body that is read is kept, then fewer bytes are, as long as that costs cheap operations alone, then as many
  // values less as the option says.
  void collect() {
    again_.assign(static_cast<size_t>(work_.value_count()), false);
    do collect_needed();
    while (!plan_.remat && keep_less());
    if (!plan_.remat) keep_whole();
    for (int64_t i = 0; !plan_.remat && i < plan_.recompute && recompute_one(); ++i) {
    }
  }

  void collect_needed() {
    residuals_.clear();
    layers_.clear();
    consts_.clear();
    std::vector<int32_t> roots;
    for (Value grad : grads_) {
      if (grad.defined()) roots.push_back(grad.id);
    }
    const std::vector<bool> live = live_nodes(work_, roots);
    runs_.assign(live.size(), false);
    seen_.assign(static_cast<size_t>(work_.value_count()), false);
    for (size_t n = forward_nodes_; n < live.size(); ++n) {
      if (!live[n]) continue;
      runs_[n] = true;
      for (int32_t id : work_.nodes()[n].inputs) need(id);
    }
    for (int32_t root : roots) need(root);
  }

  void need(int32_t id) {
    if (seen_[static_cast<size_t>(id)]) return;
    seen_[static_cast<size_t>(id)] = true;
    const int32_t producer = work_.producer(id);
    if (producer < 0) {
      need_input(id);
    } else if (static_cast<size_t>(producer) < forward_nodes_) {
      const Node& node = work_.nodes()[static_cast<size_t>(producer)];
      if (plan_.remat || again_[static_cast<size_t>(id)] || is_repeated(work_, node)) {
        runs_[static_cast<size_t>(producer)] = true;
        for (int32_t operand : node.inputs) need(operand);
      } else {
        residuals_.push_back({id, {}});
      }
    }
  }

  void need_input(int32_t id) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].id != id) continue;
      if (plan_.is_carry(i)) {
        residuals_.push_back({id, {}});
      } else {
        (plan_.is_per_layer(i) ? layers_ : consts_).push_back({id, call_.inputs[i]});
      }
    }
  }

  int64_t bytes_of(int32_t id) const {
    const ValueType& type = work_.type(id);
    return type.shape.count() * dtype_size(type.dtype);
  }
  bool is_kept(int32_t id) const {
    return std::any_of(residuals_.begin(), residuals_.end(),
                       [&](const Passed& kept) { return kept.work == id; });
  }

  // Bytes to keep in addition where the value is computed again of what is kept; `path`: the cheap values on the way.
  int64_t cost_again(int32_t id, std::vector<int32_t>& path) const {
    int64_t cost = 0;
    path.push_back(id);
    for (int32_t operand : work_.nodes()[static_cast<size_t>(work_.producer(id))].inputs) {
      if (std::find(path.begin(), path.end(), operand) == path.end())
        cost += cost_of_operand(operand, path);
    }
    return cost;
  }
  int64_t cost_of_operand(int32_t id, std::vector<int32_t>& path) const {
    const int32_t producer = work_.producer(id);
    if (producer < 0) {
      const bool carried =
          std::any_of(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(plan_.carry),
                      [&](Value input) { return input.id == id; });
      return carried && !is_kept(id) ? bytes_of(id) : 0;
    }
    if (is_kept(id)) return 0;
    const Node& node = work_.nodes()[static_cast<size_t>(producer)];
    if (!is_cheap(node) && !is_repeated(work_, node)) return bytes_of(id);
    std::vector<int32_t> longer = path;
    const int64_t cost = cost_again(id, longer);
    if (cost >= bytes_of(id) && !is_repeated(work_, node)) return bytes_of(id);
    path = std::move(longer);
    return cost;
  }

  // One residual less, or several smaller ones in its place. False: nothing is gained any more.
  bool keep_less() {
    for (const Passed& kept : residuals_) {
      const int32_t producer = work_.producer(kept.work);
      if (producer < 0 || !is_cheap(work_.nodes()[static_cast<size_t>(producer)])) continue;
      if (kept_already(kept.work).defined()) continue;
      std::vector<int32_t> path;
      if (cost_again(kept.work, path) >= bytes_of(kept.work)) continue;
      for (int32_t id : path) again_[static_cast<size_t>(id)] = true;
      return true;
    }
    return false;
  }

  // A value of which every number is kept in slices is kept itself: gradients find room in one large stack where they
  // find none in several small ones (cpu/stack_overlap.h).
  void keep_whole() {
    std::map<int32_t, std::vector<int32_t>> slices; // by the value they are of
    for (const Passed& kept : residuals_) {
      const int32_t producer = work_.producer(kept.work);
      if (producer < 0 || kept_already(kept.work).defined()) continue;
      const Node& node = work_.nodes()[static_cast<size_t>(producer)];
      if (std::string_view(node.op->name) == "slice") slices[node.inputs[0]].push_back(kept.work);
    }
    for (const auto& [whole, parts] : slices) {
      const auto from = static_cast<size_t>(work_.producer(whole));
      int64_t bytes = 0;
      for (int32_t part : parts) bytes += bytes_of(part);
      if (work_.producer(whole) < 0 || from >= forward_nodes_ || bytes < bytes_of(whole)) continue;
      for (int32_t part : parts) again_[static_cast<size_t>(part)] = true;
    }
    collect_needed();
  }

  // Of one step: what is kept for it, and the operations of the forward body that the backward body repeats.
  struct Price {
    int64_t bytes = 0;
    double operations = 0;
  };
  Price price() const {
    constexpr double kPass = 16; // operations that a pass over one number in memory is worth
    Price sum;
    for (const Passed& kept : residuals_) {
      if (!kept_already(kept.work).defined()) sum.bytes += bytes_of(kept.work);
    }
    for (size_t n = 0; n < forward_nodes_; ++n) {
      if (!runs_[n]) continue;
      const Node& node = work_.nodes()[n];
      sum.operations += count_flops(work_, node);
      for (int32_t id : node.outputs)
        sum.operations += kPass * static_cast<double>(work_.type(id).shape.count());
    }
    return sum;
  }

  // The value and what it is made of, up to what is kept, will be computed again.
  void mark_again(int32_t id) {
    const int32_t producer = work_.producer(id);
    if (producer < 0) return;
    const Node& node = work_.nodes()[static_cast<size_t>(producer)];
    for (int32_t made : node.outputs) again_[static_cast<size_t>(made)] = true;
    for (int32_t operand : node.inputs) {
      if (!is_kept(operand) && !again_[static_cast<size_t>(operand)]) mark_again(operand);
    }
  }

  // One way to keep less: what would be computed again, and what that gives.
  struct Choice {
    std::vector<bool> again;
    int64_t saved = 0;
    double ratio = 0; // bytes for an operation
  };
  std::vector<Choice> choices() {
    const std::vector<bool> before = again_;
    const std::vector<Passed> kept = residuals_;
    const Price old = price();
    std::vector<Choice> made;
    for (const Passed& value : kept) {
      if (work_.producer(value.work) < 0 || kept_already(value.work).defined()) continue;
      again_ = before;
      residuals_ = kept;
      mark_again(value.work);
      collect_needed();
      const Price now = price();
      const int64_t saved = old.bytes - now.bytes;
      const double operations = std::max(1.0, now.operations - old.operations);
      if (saved > 0) made.push_back({again_, saved, static_cast<double>(saved) / operations});
    }
    again_ = before;
    collect_needed();
    return made;
  }

  // Gives up the kept value that saves most bytes for an operation; of about equal ones the smallest, so that no more is
  // given up than must be. False: none saves any.
  bool recompute_one() {
    constexpr double kAboutEqual = 0.8;
    const std::vector<Choice> all = choices();
    double most = 0;
    for (const Choice& choice : all) most = std::max(most, choice.ratio);
    const Choice* best = nullptr;
    for (const Choice& choice : all) {
      if (choice.ratio < kAboutEqual * most) continue;
      if (best == nullptr || choice.saved < best->saved) best = &choice;
    }
    if (best == nullptr) return false;
    again_ = best->again;
    collect_needed();
    return true;
  }

  // Makes every residual a per-step result of the forward scan; one that is a result already is
  // used as it is.
  void keep_residuals() {
    // With remat inner scans keep their own bodies: what widened them belongs to the
    // backward body.
    const Graph& source = plan_.remat ? body_ : work_;
    auto wide = std::make_shared<Graph>(body_.name());
    Cloner cloner(source, *wide);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const GraphInput& input = body_.inputs()[i];
      const int32_t id = plan_.remat ? input.value : inputs_[i].id;
      cloner.map(id, wide->input(input.name, body_.type(input.value), input.is_parameter));
    }
    for (size_t n = 0; n < forward_nodes_; ++n) cloner.node(static_cast<int32_t>(n));
    for (const GraphOutput& output : body_.outputs()) {
      wide->output(output.name, cloner.at(plan_.remat ? output.value : copy_.at(output.value).id));
    }
    std::vector<size_t> added;
    for (size_t r = 0; r < residuals_.size(); ++r) {
      residuals_[r].outside = kept_already(residuals_[r].work);
      if (residuals_[r].outside.defined()) continue;
      wide->output("saved:" + std::to_string(wide->outputs().size()),
                   cloner.at(in_source(residuals_[r].work)));
      added.push_back(r);
    }
    if (added.empty()) return;
    const int32_t node = call_.graph.producer(call_.outputs[0].id);
    const std::vector<Value> kept = call_.graph.widen_scan(node, wide);
    for (size_t i = 0; i < added.size(); ++i) residuals_[added[i]].outside = kept[i];
  }

  // The body's own id of a value of the work graph; residuals of a remat scan are carries.
  int32_t in_source(int32_t work) const {
    if (!plan_.remat) return work;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].id == work) return body_.inputs()[i].value;
    }
    fail(Code::internal, "[scan] body {} keeps a value that is no carry", body_.name());
  }

  Value kept_already(int32_t work) const {
    for (size_t i = plan_.carry; i < body_.outputs().size(); ++i) {
      if (copy_.at(body_.outputs()[i].value).id == work) return call_.outputs[i];
    }
    return {};
  }

  void pass(Cloner& cloner, const Passed& value, size_t number) {
    std::string name = "kept:" + std::to_string(number);
    bool is_parameter = false;
    for (const GraphInput& input : work_.inputs()) {
      if (input.value != value.work) continue;
      name = input.name;
      is_parameter = input.is_parameter;
    }
    const ValueType& type = work_.type(value.work);
    cloner.map(value.work, backward_->input(free_name(*backward_, name), type, is_parameter));
  }

  void build_backward() {
    backward_ = std::make_shared<Graph>(body_.name() + ".grad");
    Cloner cloner(work_, *backward_);
    std::vector<Value> sums; // one per wanted const that has a gradient
    for (size_t i = 0; i < carry_seeds_.size(); ++i) pass(cloner, carry_seeds_[i], i);
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (!is_summed(i)) continue;
      sums.push_back(backward_->input(name_of("sum:", i), sum_type(i)));
    }
    for (size_t i = 0; i < stacked_seeds_.size(); ++i) pass(cloner, stacked_seeds_[i], i);
    for (size_t i = 0; i < layers_.size(); ++i) pass(cloner, layers_[i], i);
    for (size_t i = 0; i < residuals_.size(); ++i) pass(cloner, residuals_[i], i);
    for (size_t i = 0; i < consts_.size(); ++i) pass(cloner, consts_[i], i);
    for (size_t n = forward_nodes_; n < runs_.size(); ++n) {
      if (runs_[n]) add_node(cloner, static_cast<int32_t>(n));
    }
    for (Value grad : grads_) {
      if (grad.defined()) add_producer(cloner, grad.id);
    }
    size_t next = 0;
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (plan_.is_carry(wrt_[i])) backward_->output(name_of("d:", i), cloner.at(grads_[i].id));
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (!is_summed(i)) continue;
      const Value grad =
          vary(convert(cloner.at(grads_[i].id), DType::f32), inputs_[wrt_[i]].type().axes);
      backward_->output(name_of("sum:", i), add(sums[next++], grad));
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (is_stacked(i)) backward_->output(name_of("d:", i), cloner.at(grads_[i].id));
    }
  }

  // A node of the forward body is repeated just before the first one that reads it.
  void add_node(Cloner& cloner, int32_t n) {
    for (int32_t operand : work_.nodes()[static_cast<size_t>(n)].inputs)
      add_producer(cloner, operand);
    cloner.node(n);
  }
  void add_producer(Cloner& cloner, int32_t id) {
    if (!cloner.has(id)) add_node(cloner, work_.producer(id));
  }

  // A const's gradient is a sum over the steps, in f32.
  ValueType sum_type(size_t i) const {
    ValueType type = inputs_[wrt_[i]].type();
    type.dtype = DType::f32;
    return type;
  }

  std::string name_of(const char* prefix, size_t i) const {
    return prefix + body_.inputs()[wrt_[i]].name;
  }

  bool is_stacked(size_t i) const { return plan_.is_per_layer(wrt_[i]) && grads_[i].defined(); }
  bool is_summed(size_t i) const {
    return !plan_.is_carry(wrt_[i]) && !plan_.is_per_layer(wrt_[i]) && grads_[i].defined();
  }

  std::vector<Value> launch() {
    std::vector<Value> carry, per_layer, consts, results(call_.inputs.size());
    for (const Passed& seed : carry_seeds_) {
      carry.push_back(seed.outside.defined() ? seed.outside
                                             : zeros_of(call_.graph, work_.type(seed.work)));
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (is_summed(i)) carry.push_back(zeros_of(call_.graph, sum_type(i)));
    }
    for (const auto* group : {&stacked_seeds_, &layers_, &residuals_}) {
      for (const Passed& value : *group) per_layer.push_back(value.outside);
    }
    for (const Passed& value : consts_) consts.push_back(value.outside);
    if (carry.empty() && per_layer.empty()) return results;
    const ScanOptions options{plan_.begin, plan_.end, !plan_.reverse, false};
    const ScanResult made = scan(backward_, carry, per_layer, consts, plan_.count, options);
    size_t next_carry = 0, next_stacked = 0;
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (plan_.is_carry(wrt_[i])) results[wrt_[i]] = made.carry[next_carry++];
    }
    for (size_t i = 0; i < wrt_.size(); ++i) {
      if (is_summed(i)) results[wrt_[i]] = made.carry[next_carry++];
      if (is_stacked(i)) results[wrt_[i]] = made.stacked[next_stacked++];
    }
    return results;
  }

  const VjpCall& call_;
  ScanPlan plan_;
  const Graph& body_;
  Graph work_;  // the body, then its gradient
  Cloner copy_; // body_ -> work_
  size_t forward_nodes_ = 0;
  std::vector<Value> inputs_; // of the body, in work_
  std::vector<size_t> wrt_;   // operands a gradient is computed of
  std::vector<Value> grads_;  // in work_, one per wrt_
  std::vector<bool> runs_;    // nodes of work_ the backward body has
  std::vector<bool> seen_;
  std::vector<bool> again_; // values of the forward body that the backward body computes
  std::vector<Passed> carry_seeds_, stacked_seeds_, layers_, residuals_, consts_;
  std::shared_ptr<Graph> backward_;
};

} // namespace

std::vector<Value> scan_vjp(const VjpCall& call) {
  return ScanGradient(call).run();
}

} // namespace dllm::graph::ops
