// Finds groups of elementwise steps and replaces each group by one step.

#include "cpu/fused_steps.h"

#include "cpu/fused_tiles.h"
#include "graph/op.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

namespace dllm::cpu {
namespace {

// Smaller arrays stay in the cache without tiles.
constexpr int64_t kFewest = 4 * kTileNumbers;
constexpr size_t kMostMembers = 64;

class Fuser {
public:
  explicit Fuser(Frame& frame)
      : frame_(frame), graph_(*frame.graph), made_at_(frame.places.size(), -1),
        made_in_(frame.places.size(), -1), is_read_outside_(frame.places.size(), false) {}

  void run() {
    std::vector<std::vector<size_t>> groups; // steps; a group runs in place of its first step
    std::vector<int32_t> group_of(frame_.steps.size(), -1);
    for (size_t s = 0; s < frame_.steps.size(); ++s) {
      const int32_t found = is_member(frame_.steps[s]) ? group_for(s, groups) : -1;
      if (found >= 0) groups[static_cast<size_t>(found)].push_back(s);
      if (found < 0 && is_member(frame_.steps[s])) {
        group_of[s] = static_cast<int32_t>(groups.size());
        groups.push_back({s});
      } else {
        group_of[s] = found;
      }
      // Results of a member exist once its group has run.
      const size_t at = group_of[s] < 0 ? s : groups[static_cast<size_t>(group_of[s])].front();
      for (int32_t value : frame_.steps[s].outputs) {
        made_at_[index(value)] = static_cast<int32_t>(at);
        made_in_[index(value)] = group_of[s];
      }
    }
    find_outside_readers(group_of);
    join(groups, group_of);
  }

private:
  static size_t index(int32_t value) { return static_cast<size_t>(value); }
  int32_t root(int32_t value) const { return frame_.source[index(value)]; }
  int64_t count_of(int32_t value) const { return graph_.type(value).shape.count(); }
  const graph::Node& node_of(const Step& step) const {
    return graph_.nodes()[static_cast<size_t>(step.node)];
  }

  bool is_member(const Step& step) const {
    if (step.loop != nullptr || !step.kernel.elementwise || step.outputs.size() != 1) return false;
    const int64_t count = count_of(step.outputs[0]);
    if (count < kFewest || !node_of(step).op->is_elementwise) return false;
    if (graph_.type(step.outputs[0]).dtype != DType::f32) return false;
    return std::all_of(step.inputs.begin(), step.inputs.end(), [&](int32_t v) {
      return graph_.type(v).dtype == DType::f32 && (count_of(v) == count || count_of(v) == 1);
    });
  }

  // Returns the newest group that may take the step, or -1. The arrays must have the same size, and
  // the operands of the step must be made before the group or by it.
  int32_t group_for(size_t s, const std::vector<std::vector<size_t>>& groups) const {
    const Step& step = frame_.steps[s];
    for (size_t g = groups.size(); g-- > 0;) {
      const auto first = static_cast<int32_t>(groups[g].front());
      if (groups[g].size() >= kMostMembers ||
          count_of(frame_.steps[groups[g].front()].outputs[0]) != count_of(step.outputs[0]))
        continue;
      const bool there = std::all_of(step.inputs.begin(), step.inputs.end(), [&](int32_t v) {
        return made_at_[index(root(v))] < first || is_made_by(g, root(v));
      });
      if (there && shares(g, groups[g], step)) return static_cast<int32_t>(g);
    }
    return -1;
  }

  bool is_made_by(size_t group, int32_t value) const {
    return made_in_[index(value)] == static_cast<int32_t>(group);
  }

  // Returns true if the step reads an array that the group makes or reads. Otherwise joining gains
  // nothing.
  bool shares(size_t group, const std::vector<size_t>& members, const Step& step) const {
    return std::any_of(step.inputs.begin(), step.inputs.end(), [&](int32_t v) {
      if (count_of(v) == 1) return false;
      return is_made_by(group, root(v)) ||
             std::any_of(members.begin(), members.end(), [&](size_t s) {
               const auto& inputs = frame_.steps[s].inputs;
               return std::any_of(inputs.begin(), inputs.end(),
                                  [&](int32_t w) { return root(w) == root(v); });
             });
    });
  }

  // Marks values that a step outside of their group reads, and outputs of the graph.
  void find_outside_readers(const std::vector<int32_t>& group_of) {
    for (const graph::GraphOutput& output : graph_.outputs())
      is_read_outside_[index(root(output.value))] = true;
    for (size_t s = 0; s < frame_.steps.size(); ++s) {
      for (int32_t v : frame_.steps[s].inputs) {
        const size_t value = index(root(v));
        if (group_of[s] < 0 || made_in_[value] != group_of[s]) is_read_outside_[value] = true;
      }
    }
  }

  void join(const std::vector<std::vector<size_t>>& groups, const std::vector<int32_t>& group_of) {
    std::vector<Step> joined(groups.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].size() > 1) joined[g] = fused(groups[g]);
    }
    std::vector<Step> kept;
    for (size_t s = 0; s < frame_.steps.size(); ++s) {
      const auto g = static_cast<size_t>(group_of[s]);
      if (group_of[s] < 0 || groups[g].size() == 1)
        kept.push_back(std::move(frame_.steps[s]));
      else if (groups[g].front() == s)
        kept.push_back(std::move(joined[g]));
    }
    frame_.steps = std::move(kept);
    for (const Step& step : frame_.steps)
      frame_.most_operands =
          std::max(frame_.most_operands, step.inputs.size() + step.outputs.size());
  }

  // Returns the last member of the group that reads the value. Returns the group's size when the
  // value is read outside.
  size_t last_use(int32_t value, const std::vector<size_t>& group) const {
    if (is_read_outside_[index(value)]) return group.size();
    size_t last = 0;
    for (size_t m = 0; m < group.size(); ++m) {
      for (int32_t v : frame_.steps[group[m]].inputs) {
        if (root(v) == value) last = m;
      }
    }
    return last;
  }

  Step fused(const std::vector<size_t>& group) const {
    auto made = std::make_shared<FusedTiles>();
    Step step;
    step.node = frame_.steps[group.back()].node;
    made->count = count_of(frame_.steps[group.front()].outputs[0]);
    made->tiles = (made->count + kTileNumbers - 1) / kTileNumbers;
    made->chunks = std::min<int64_t>(made->tiles, kChunks);
    std::map<int32_t, size_t> slot_of;
    std::vector<size_t> busy_until; // by slot
    for (size_t m = 0; m < group.size(); ++m) {
      const Step& member = frame_.steps[group[m]];
      TileMember part;
      std::vector<bool> scalars;
      for (int32_t v : member.inputs) {
        scalars.push_back(count_of(v) == 1 && made->count != 1);
        part.operands.push_back(operand(root(v), scalars.back(), slot_of, step));
      }
      const graph::Node& node = node_of(member);
      part.whole = tile_kernel(node, scalars, kTileNumbers);
      part.rest = tile_kernel(node, scalars, made->count % kTileNumbers);
      const int32_t value = member.outputs[0];
      part.slot = free_slot(busy_until, m);
      busy_until[part.slot] = last_use(value, group);
      slot_of[value] = part.slot;
      if (busy_until[part.slot] == group.size()) {
        step.outputs.push_back(value);
        made->outputs.push_back(part.slot);
      }
      made->members.push_back(std::move(part));
    }
    made->slots = busy_until.size();
    step.kernel.elementwise = true;
    step.kernel.scratch_bytes = made->scratch_bytes();
    step.kernel.run = [made](const KernelCall& call) { made->run(call); };
    return step;
  }

  // Returns a slot for the result of member m. Its previous value was read for the last time before
  // m.
  static size_t free_slot(std::vector<size_t>& busy_until, size_t m) {
    for (size_t i = 0; i < busy_until.size(); ++i) {
      if (busy_until[i] < m) return i;
    }
    busy_until.push_back(m);
    return busy_until.size() - 1;
  }

  static TileOperand operand(int32_t value, bool scalar, const std::map<int32_t, size_t>& slot_of,
                             Step& step) {
    const auto slot = slot_of.find(value);
    if (slot != slot_of.end()) return {TileOperand::kSlot, slot->second};
    auto at = std::find(step.inputs.begin(), step.inputs.end(), value);
    if (at == step.inputs.end()) at = step.inputs.insert(step.inputs.end(), value);
    const auto input = static_cast<size_t>(at - step.inputs.begin());
    return {scalar ? TileOperand::kScalar : TileOperand::kInput, input};
  }

  // Constant, so that the scratch bytes do not depend on the number of threads.
  static constexpr int64_t kChunks = 16;

  Frame& frame_;
  const graph::Graph& graph_;
  // By value.
  std::vector<int32_t> made_at_;      // the step that makes it; -1: it exists before the run
  std::vector<int32_t> made_in_;      // the group that makes it; -1: none
  std::vector<bool> is_read_outside_; // it is read outside of its group
};

} // namespace

void fuse_elementwise_steps(Frame& frame) {
  Fuser(frame).run();
}

} // namespace dllm::cpu
