// Graph::dump: the text of a graph.

#include "graph/graph.h"
#include "graph/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dllm::graph {
namespace {

// A literal in a few characters: "2.5", or "{1, 2, ...}" with at most six numbers.
std::string literal_text(const Tensor& literal) {
  const Tensor wide = literal.to(DType::f64);
  const auto values = wide.as<double>();
  if (literal.shape().rank() == 0) return fmt::format("{}", values[0]);
  constexpr size_t kShown = 6;
  const size_t shown = std::min(values.size(), kShown);
  return fmt::format("{{{}{}}}", fmt::join(values.first(shown), ", "),
                     shown < values.size() ? ", ..." : "");
}

class Printer {
public:
  Printer(const Graph& graph, int depth)
      : graph_(graph), indent_(static_cast<size_t>(2 * depth), ' ') {
    for (const GraphInput& input : graph.inputs()) {
      named_.resize(static_cast<size_t>(graph.value_count()));
      named_[static_cast<size_t>(input.value)] = input.name;
    }
    named_.resize(static_cast<size_t>(graph.value_count()));
  }

  std::string text(int depth) {
    std::string out = fmt::format("{}graph {} (\n", indent_, graph_.name());
    for (const GraphInput& input : graph_.inputs()) {
      out += fmt::format("{}    {}: {}{}\n", indent_, input.name, graph_.type(input.value).text(),
                         input.is_parameter ? " parameter" : "");
    }
    out += indent_ + ") {\n";
    for (const Node& node : graph_.nodes()) out += line(node, depth);
    for (const GraphOutput& output : graph_.outputs()) out += result(output);
    return out + indent_ + "}\n";
  }

private:
  std::string name(int32_t id) const {
    const std::string& given = named_[static_cast<size_t>(id)];
    return given.empty() ? fmt::format("%{}", id) : given;
  }

  std::string line(const Node& node, int depth) const {
    std::vector<std::string> results, operands;
    for (int32_t id : node.outputs)
      results.push_back(fmt::format("%{}: {}", id, graph_.type(id).text()));
    for (int32_t id : node.inputs) operands.push_back(name(id));
    std::string out = fmt::format("{}  {} = {}({})", indent_, fmt::join(results, ", "),
                                  node.op->name, fmt::join(operands, ", "));
    if (node.literal.defined()) out += " " + literal_text(node.literal);
    const std::string attributes = node.attributes.dump();
    if (!attributes.empty()) out += " [" + attributes + "]";
    out += '\n';
    for (const auto& body : node.bodies) out += Printer(*body, depth + 2).text(depth + 2);
    return out;
  }

  std::string result(const GraphOutput& output) const {
    std::string out = fmt::format("{}  return {} = {}", indent_, output.name, name(output.value));
    if (output.donated_input >= 0) {
      out += " over " + graph_.inputs()[static_cast<size_t>(output.donated_input)].name;
    }
    return out + "\n";
  }

  const Graph& graph_;
  std::string indent_;
  std::vector<std::string> named_;
};

} // namespace

std::string Graph::dump() const {
  return Printer(*this, 0).text(0);
}

} // namespace dllm::graph
