// Finds the conversion to whole numbers because of which a value has no gradient.

#include "graph/op.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace dllm::graph {
namespace {

using ops::ScanPlan;

// How a value depends on the value x in question: not at all, differentiably, or through a
// conversion. Of several paths the largest one counts.
enum Path : uint8_t { kNone, kSmooth, kCut };

class Walk {
public:
  Walk(const Graph& graph, std::vector<Path> paths) : graph_(graph), paths_(std::move(paths)) {}

  void run() {
    paths_.resize(static_cast<size_t>(graph_.value_count()), kNone);
    for (const Node& node : graph_.nodes()) step(node);
  }
  Path path(int32_t value) const { return paths_[static_cast<size_t>(value)]; }
  const std::string& cut() const { return cut_; } // the first conversion

private:
  void step(const Node& node) {
    if (node.op->stops_gradient) return;
    Path most = kNone;
    for (const int32_t id : node.inputs) most = std::max(most, path(id));
    if (most == kNone) return;
    if (std::string_view(node.op->name) == "scan") return scan(node);
    for (const int32_t id : node.outputs) {
      const bool smooth = is_differentiable(graph_.type(id).dtype);
      Path& own = paths_[static_cast<size_t>(id)];
      if (most == kCut || smooth) own = most;
      if (most != kSmooth || smooth || std::string_view(node.op->name) != "convert") continue;
      own = kCut;
      note("[convert] to " + graph_.type(id).text());
    }
  }

  // Walks the body until the paths of the carries no longer change. A round can only raise them.
  void scan(const Node& node) {
    const Graph& body = *node.bodies[0];
    const ScanPlan plan(node.attributes);
    std::vector<Path> given;
    for (const int32_t id : node.inputs) given.push_back(path(id));
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<Path> paths(static_cast<size_t>(body.value_count()), kNone);
      for (size_t i = 0; i < given.size(); ++i)
        paths[static_cast<size_t>(body.inputs()[i].value)] = given[i];
      Walk inside(body, std::move(paths));
      inside.run();
      note(inside.cut());
      for (size_t o = 0; o < node.outputs.size() && o < body.outputs().size(); ++o) {
        const Path made = inside.path(body.outputs()[o].value);
        Path& own = paths_[static_cast<size_t>(node.outputs[o])];
        own = std::max(own, made);
        if (o >= plan.carry || made <= given[o]) continue;
        given[o] = made;
        changed = true;
      }
    }
  }

  void note(const std::string& cut) {
    if (cut_.empty()) cut_ = cut;
  }

  const Graph& graph_;
  std::vector<Path> paths_; // by value
  std::string cut_;
};

} // namespace

std::string cut_by_conversion(const Graph& graph, Value x, Value loss) {
  std::vector<Path> paths(static_cast<size_t>(graph.value_count()), kNone);
  paths[static_cast<size_t>(x.id)] = kSmooth;
  Walk walk(graph, std::move(paths));
  walk.run();
  return walk.path(loss.id) == kCut ? walk.cut() : "";
}

} // namespace dllm::graph
