// join_pads: replaces a sum of zero-padded arrays that do not overlap by their concatenation. The
// gradient of a value that is cut into slices (queries, keys and values of one product) is such a
// sum. The sum takes five passes over memory, the concatenation one.

#include "graph/op.h"
#include "graph/ops.h"
#include "graph/passes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace dllm::graph {
namespace {

bool has_name(const Node& node, std::string_view name) {
  return std::string_view(node.op->name) == name;
}

struct Part {
  int32_t value; // the value that is padded
  int64_t begin; // its first index along the axis
};

// Collects the parts of one sum.
class PadSum {
public:
  explicit PadSum(const Graph& graph) : graph_(graph) {}

  // Returns the parts, ordered along axis(), if `node` is a sum of padded arrays that fill its
  // result without overlap.
  std::optional<std::vector<Part>> parts_of(const Node& node) {
    if (!has_name(node, "add")) return std::nullopt;
    shape_ = graph_.type(node.outputs[0]).shape;
    if (!collect(node.outputs[0])) return std::nullopt;
    std::sort(parts_.begin(), parts_.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
    int64_t next = 0;
    for (const Part& part : parts_) {
      if (part.begin != next) return std::nullopt;
      next += graph_.type(part.value).shape.dim(axis_);
    }
    if (next != graph_.type(node.outputs[0]).shape.dim(axis_)) return std::nullopt;
    return parts_;
  }
  int64_t axis() const { return axis_; }

private:
  bool collect(int32_t value) {
    const int32_t producer = graph_.producer(value);
    if (producer < 0 || !(graph_.type(value).shape == shape_)) return false;
    const Node& node = graph_.nodes()[static_cast<size_t>(producer)];
    if (has_name(node, "add")) return collect(node.inputs[0]) && collect(node.inputs[1]);
    return has_name(node, "pad") && is_zero(node.inputs[1]) && take(node);
  }

  // Adds a part. Returns false unless it is padded along one axis, the same for all parts.
  bool take(const Node& pad) {
    const auto& low = pad.attributes.list("low");
    const auto& high = pad.attributes.list("high");
    for (size_t i = 0; i < low.size(); ++i) {
      if (low[i] == 0 && high[i] == 0) continue;
      if (axis_ >= 0 && axis_ != static_cast<int64_t>(i)) return false;
      axis_ = static_cast<int64_t>(i);
    }
    if (axis_ < 0) return false;
    parts_.push_back({pad.inputs[0], low[static_cast<size_t>(axis_)]});
    return true;
  }

  bool is_zero(int32_t value) const {
    const int32_t producer = graph_.producer(value);
    if (producer < 0) return false;
    const Node& node = graph_.nodes()[static_cast<size_t>(producer)];
    if (!has_name(node, "constant") || node.literal.dtype() != DType::f32) return false;
    const auto numbers = node.literal.as<float>();
    return std::all_of(numbers.begin(), numbers.end(), [](float x) { return x == 0; });
  }

  const Graph& graph_;
  Shape shape_; // shape of the sum
  std::vector<Part> parts_;
  int64_t axis_ = -1;
};

} // namespace

std::shared_ptr<Graph> join_pads(std::shared_ptr<Graph> graph) {
  bool any = false;
  BodyMemo memo;
  const Replace replace = [&](Cloner& cloner, Graph& to, int32_t index,
                              std::vector<std::shared_ptr<const Graph>> bodies) {
    const Node& node = cloner.from().nodes()[static_cast<size_t>(index)];
    PadSum sum(cloner.from());
    const auto parts = sum.parts_of(node);
    if (!parts) return copy_node(cloner, to, index, std::move(bodies));
    any = true;
    std::vector<Value> values;
    for (const Part& part : *parts) values.push_back(cloner.at(part.value));
    cloner.map(node.outputs[0], concat(values, sum.axis()));
  };
  std::shared_ptr<Graph> made = rewrite(*graph, replace, memo);
  return any ? remove_dead_code(*made) : graph;
}

} // namespace dllm::graph
