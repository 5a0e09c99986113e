// Chooses the values that the backward scan receives. It tries sets of kept values; for each set a
// walk from the gradients finds the values and nodes that they need.

#include "graph/ops/scan_kept.h"

#include "graph/op.h"
#include "graph/passes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace dllm::graph::ops {
namespace {

// Returns true for a node that the backward body always repeats instead of keeping its result.
bool is_repeated(const Graph& graph, const Node& node) {
  if (node.op->repeat == Repeat::always) return true;
  const auto size = [&](int32_t id) { return dtype_size(graph.type(id).dtype); };
  return std::string_view(node.op->name) == "convert" &&
         size(node.inputs[0]) < size(node.outputs[0]);
}

bool is_cheap(const Node& node) {
  return node.op->repeat == Repeat::cheap;
}

class KeptValues {
public:
  explicit KeptValues(const ScanWork& work) : work_(work) {}

  // Decides which nodes run in the backward body and which values are passed to it. First, every
  // value of the forward body that the gradient reads is kept. Then kept bytes are reduced as long
  // as only cheap operations are repeated. Last, as many values as the option `recompute` names are
  // recomputed.
  ScanKept run() {
    again_.assign(static_cast<size_t>(work_.work.value_count()), false);
    do collect_needed();
    while (!work_.plan.remat && keep_less());
    if (!work_.plan.remat) keep_whole();
    for (int64_t i = 0; !work_.plan.remat && i < work_.plan.recompute && recompute_one(); ++i) {
    }
    return std::move(made_);
  }

private:
  void collect_needed() {
    made_.residuals.clear();
    made_.layers.clear();
    made_.consts.clear();
    std::vector<int32_t> roots;
    for (Value grad : work_.grads) {
      if (grad.defined()) roots.push_back(grad.id);
    }
    const std::vector<bool> live = live_nodes(work_.work, roots);
    made_.runs.assign(live.size(), false);
    seen_.assign(static_cast<size_t>(work_.work.value_count()), false);
    for (size_t n = work_.forward_nodes; n < live.size(); ++n) {
      if (!live[n]) continue;
      made_.runs[n] = true;
      for (int32_t id : work_.node(static_cast<int32_t>(n)).inputs) need(id);
    }
    for (int32_t root : roots) need(root);
  }

  void need(int32_t id) {
    if (seen_[static_cast<size_t>(id)]) return;
    seen_[static_cast<size_t>(id)] = true;
    const int32_t producer = work_.work.producer(id);
    if (producer < 0) {
      need_input(id);
    } else if (static_cast<size_t>(producer) < work_.forward_nodes) {
      const Node& made_by = work_.node(producer);
      if (work_.plan.remat || again_[static_cast<size_t>(id)] || is_repeated(work_.work, made_by)) {
        made_.runs[static_cast<size_t>(producer)] = true;
        for (int32_t operand : made_by.inputs) need(operand);
      } else {
        made_.residuals.push_back({id, {}});
      }
    }
  }

  void need_input(int32_t id) {
    for (size_t i = 0; i < work_.inputs.size(); ++i) {
      if (work_.inputs[i].id != id) continue;
      if (work_.plan.is_carry(i)) {
        made_.residuals.push_back({id, {}});
      } else {
        (work_.plan.is_per_layer(i) ? made_.layers : made_.consts)
            .push_back({id, work_.call.inputs[i]});
      }
    }
  }

  // Returns the additional bytes to keep if the value is recomputed from kept values. path:
  // receives the cheap values that are recomputed on the way.
  int64_t cost_again(int32_t id, std::vector<int32_t>& path) const {
    int64_t cost = 0;
    path.push_back(id);
    for (int32_t operand : work_.node(work_.work.producer(id)).inputs) {
      if (std::find(path.begin(), path.end(), operand) == path.end())
        cost += cost_of_operand(operand, path);
    }
    return cost;
  }
  int64_t cost_of_operand(int32_t id, std::vector<int32_t>& path) const {
    const int32_t producer = work_.work.producer(id);
    if (producer < 0) {
      const bool carried =
          std::any_of(work_.inputs.begin(),
                      work_.inputs.begin() + static_cast<std::ptrdiff_t>(work_.plan.carry),
                      [&](Value input) { return input.id == id; });
      return carried && !made_.is_kept(id) ? work_.bytes_of(id) : 0;
    }
    if (made_.is_kept(id)) return 0;
    const Node& made_by = work_.node(producer);
    if (!is_cheap(made_by) && !is_repeated(work_.work, made_by)) return work_.bytes_of(id);
    std::vector<int32_t> longer = path;
    const int64_t cost = cost_again(id, longer);
    if (cost >= work_.bytes_of(id) && !is_repeated(work_.work, made_by)) return work_.bytes_of(id);
    path = std::move(longer);
    return cost;
  }

  // Recomputes one residual, from values that need fewer bytes. Returns false if no residual saves
  // bytes.
  bool keep_less() {
    for (const Passed& kept : made_.residuals) {
      const int32_t producer = work_.work.producer(kept.work);
      if (producer < 0 || !is_cheap(work_.node(producer))) continue;
      if (work_.kept_already(kept.work).defined()) continue;
      std::vector<int32_t> path;
      if (cost_again(kept.work, path) >= work_.bytes_of(kept.work)) continue;
      for (int32_t id : path) again_[static_cast<size_t>(id)] = true;
      return true;
    }
    return false;
  }

  // Keeps a whole value if all its numbers are kept in slices. Gradients can reuse the memory of
  // one large stack, but not of several small ones (cpu/stack_overlap.h).
  void keep_whole() {
    std::map<int32_t, std::vector<int32_t>> slices; // by the value that is sliced
    for (const Passed& kept : made_.residuals) {
      const int32_t producer = work_.work.producer(kept.work);
      if (producer < 0 || work_.kept_already(kept.work).defined()) continue;
      const Node& made_by = work_.node(producer);
      if (std::string_view(made_by.op->name) == "slice")
        slices[made_by.inputs[0]].push_back(kept.work);
    }
    for (const auto& [whole, parts] : slices) {
      const auto from = static_cast<size_t>(work_.work.producer(whole));
      int64_t bytes = 0;
      for (int32_t part : parts) bytes += work_.bytes_of(part);
      if (work_.work.producer(whole) < 0 || from >= work_.forward_nodes ||
          bytes < work_.bytes_of(whole))
        continue;
      for (int32_t part : parts) again_[static_cast<size_t>(part)] = true;
    }
    collect_needed();
  }

  // The price of a set of kept values: bytes kept per step, and operations that the backward body
  // repeats per step.
  struct Price {
    int64_t bytes = 0;
    double operations = 0;
  };
  Price price() const {
    constexpr double kPass = 16; // a pass over memory counts as this many operations per number
    Price sum;
    for (const Passed& kept : made_.residuals) {
      if (!work_.kept_already(kept.work).defined()) sum.bytes += work_.bytes_of(kept.work);
    }
    for (size_t n = 0; n < work_.forward_nodes; ++n) {
      if (!made_.runs[n]) continue;
      const Node& made_by = work_.node(static_cast<int32_t>(n));
      sum.operations += count_flops(work_.work, made_by);
      for (int32_t id : made_by.outputs)
        sum.operations += kPass * static_cast<double>(work_.work.type(id).shape.count());
    }
    return sum;
  }

  // Marks the value, and the values between it and the kept ones, to be recomputed.
  void mark_again(int32_t id) {
    const int32_t producer = work_.work.producer(id);
    if (producer < 0) return;
    const Node& made_by = work_.node(producer);
    for (int32_t made : made_by.outputs) again_[static_cast<size_t>(made)] = true;
    for (int32_t operand : made_by.inputs) {
      if (!made_.is_kept(operand) && !again_[static_cast<size_t>(operand)]) mark_again(operand);
    }
  }

  // One way to keep less: the values that would be recomputed, and the bytes saved.
  struct Choice {
    std::vector<bool> again;
    int64_t saved = 0;
    double ratio = 0; // bytes saved per operation
  };
  std::vector<Choice> choices() {
    const std::vector<bool> before = again_;
    const std::vector<Passed> kept = made_.residuals;
    const Price old = price();
    std::vector<Choice> made;
    for (const Passed& value : kept) {
      if (work_.work.producer(value.work) < 0 || work_.kept_already(value.work).defined()) continue;
      again_ = before;
      made_.residuals = kept;
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

  // Recomputes the kept value that saves most bytes per operation. Among values with about the same
  // ratio it takes the one that saves least, so that no more than necessary is recomputed. Returns
  // false if no value saves bytes.
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

  const ScanWork& work_;
  ScanKept made_;
  std::vector<bool> seen_;
  std::vector<bool> again_; // values of the forward body that the backward body computes
};

} // namespace

ScanKept choose_kept(const ScanWork& work) {
  return KeptValues(work).run();
}

} // namespace dllm::graph::ops
