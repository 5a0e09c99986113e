// Builds graphs and prints them as text.
#include "graph/graph.h"

#include "base/error.h"
#include "graph/op.h"
#include "graph/ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace dllm::graph {

namespace {

bool is_value_type(DType dtype) {
  switch (dtype) {
  case DType::f32:
  case DType::bf16:
  case DType::i32:
  case DType::u32:
  case DType::u8:
  case DType::i8: return true;
  default: return false;
  }
}

} // namespace

std::string ValueType::text() const {
  std::string text = (format != nullptr ? format->name : dtype_name(dtype)) + numbers().text();
  if (!axes.empty()) text += axes.text();
  return text;
}

const ValueType& Value::type() const {
  return graph->type(id);
}

int32_t Graph::new_value(ValueType type, int32_t node) {
  values_.push_back({std::move(type), node});
  return value_count() - 1;
}

Value Graph::input(std::string name, ValueType type, bool is_parameter) {
  if (find_input(name) >= 0)
    fail(Code::invalid_argument, "graph {} has an input {} already", name_, name);
  if (!is_value_type(type.dtype)) {
    fail_with_hint("convert it to f32, bf16, i32, u32, u8 or i8 first", Code::invalid_argument,
                   "input {} of graph {} is {}, which graphs do not compute with", name, name_,
                   dtype_name(type.dtype));
  }
  checked_shape(type.shape.dims(), dtype_size(type.dtype), "input " + name);
  const int32_t id = new_value(std::move(type), -1);
  inputs_.push_back({std::move(name), id, is_parameter});
  return {this, id};
}

void Graph::output(std::string name, Value value, const std::string& donated_input, bool is_brief) {
  if (value.graph != this)
    fail(Code::internal, "output {} does not belong to graph {}", name, name_);
  if (find_output(name) >= 0)
    fail(Code::invalid_argument, "graph {} has an output {} already", name_, name);
  int32_t donated = -1;
  if (!donated_input.empty()) {
    donated = find_input(donated_input);
    if (donated < 0)
      fail(Code::not_found, "output {} takes over {}, which is not an input", name, donated_input);
    const ValueType& given = type(inputs_[static_cast<size_t>(donated)].value);
    if (!(given == value.type())) {
      const bool same_array = given.shape == value.shape() && given.dtype == value.dtype();
      fail_with_hint(same_array ? "a reduction over mesh axes is missing or doubled" : "",
                     Code::invalid_argument, "output {} {} cannot take over input {} {}", name,
                     value.type().text(), donated_input, given.text());
    }
    for (const GraphOutput& other : outputs_) {
      if (other.donated_input != donated) continue;
      fail(Code::invalid_argument, "input {} is taken over by both {} and {}", donated_input,
           other.name, name);
    }
  }
  outputs_.push_back({std::move(name), value.id, donated, is_brief});
}

std::vector<Value> Graph::add(const OpDef& op, std::span<const Value> inputs, Attributes attributes,
                              std::vector<std::shared_ptr<const Graph>> bodies, Tensor literal) {
  AxisSet joined;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined())
      fail(Code::invalid_argument, "[{}] operand {} is missing", op.name, i);
    if (inputs[i].graph != this) {
      fail(Code::invalid_argument, "[{}] operand {} belongs to graph {}, not to {}", op.name, i,
           inputs[i].graph->name(), name_);
    }
    joined = joined.with(inputs[i].type().axes);
  }
  std::vector<int32_t> ids;
  std::vector<ValueType> types;
  for (Value x : inputs) {
    if (!op.own_axes && !(x.type().axes == joined)) x = vary(x, joined);
    ids.push_back(x.id);
    types.push_back(x.type());
  }
  std::vector<ValueType> results = op.infer({op, types, attributes, bodies, literal});
  const auto index = static_cast<int32_t>(nodes_.size());
  Node node{&op, std::move(ids), {}, std::move(attributes), std::move(literal), std::move(bodies)};
  std::vector<Value> made;
  for (ValueType& result : results) {
    checked_shape(result.shape.dims(), dtype_size(result.dtype), op.name);
    if (!op.own_axes) result.axes = joined;
    node.outputs.push_back(new_value(std::move(result), index));
    made.push_back({this, node.outputs.back()});
  }
  nodes_.push_back(std::move(node));
  return made;
}

std::vector<Value> Graph::widen_scan(int32_t index, std::shared_ptr<const Graph> body) {
  Node& node = nodes_[static_cast<size_t>(index)];
  std::vector<ValueType> types;
  for (int32_t id : node.inputs) types.push_back(type(id));
  const std::vector<std::shared_ptr<const Graph>> bodies{std::move(body)};
  const auto results = node.op->infer({*node.op, types, node.attributes, bodies, node.literal});
  node.bodies = bodies;
  std::vector<Value> added;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < node.outputs.size()) {
      if (!(results[i] == type(node.outputs[i])))
        fail(Code::internal, "a widened scan changed result {}", i);
      continue;
    }
    node.outputs.push_back(new_value(results[i], index));
    added.push_back({this, node.outputs.back()});
  }
  return added;
}

int32_t Graph::find_input(std::string_view name) const {
  const auto it =
      std::find_if(inputs_.begin(), inputs_.end(), [&](const auto& x) { return x.name == name; });
  return it == inputs_.end() ? -1 : static_cast<int32_t>(it - inputs_.begin());
}

int32_t Graph::find_output(std::string_view name) const {
  const auto it =
      std::find_if(outputs_.begin(), outputs_.end(), [&](const auto& x) { return x.name == name; });
  return it == outputs_.end() ? -1 : static_cast<int32_t>(it - outputs_.begin());
}

// The functions below print a graph (Graph::dump).

namespace {

// Returns a short text of a literal: "2.5", or "{1, 2, ...}" with at most six numbers.
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
    if (output.is_brief) out += " brief";
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

namespace {

const Attribute* find(const std::vector<std::pair<std::string, Attribute>>& entries,
                      std::string_view name) {
  for (const auto& [key, value] : entries) {
    if (key == name) return &value;
  }
  return nullptr;
}

struct Print {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<int64_t>& value) const {
    return fmt::format("[{}]", fmt::join(value, ", "));
  }
};

} // namespace

void Attributes::set(std::string name, Attribute value) {
  for (auto& [key, old] : entries_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::move(name), std::move(value));
}

bool Attributes::has(std::string_view name) const {
  return find(entries_, name) != nullptr;
}

template <class T> const T& Attributes::get(std::string_view name) const {
  const Attribute* found = find(entries_, name);
  const T* value = found != nullptr ? std::get_if<T>(found) : nullptr;
  if (value == nullptr) {
    fail(Code::internal, "attribute {} is {}", name,
         found == nullptr ? "missing" : "of another type");
  }
  return *value;
}

bool Attributes::flag(std::string_view name) const {
  return get<bool>(name);
}
int64_t Attributes::integer(std::string_view name) const {
  return get<int64_t>(name);
}
double Attributes::number(std::string_view name) const {
  return get<double>(name);
}
const std::string& Attributes::text(std::string_view name) const {
  return get<std::string>(name);
}
const std::vector<int64_t>& Attributes::list(std::string_view name) const {
  return get<std::vector<int64_t>>(name);
}

std::string Attributes::dump() const {
  std::string text;
  for (const auto& [key, value] : entries_) {
    if (!text.empty()) text += ' ';
    text += key + '=' + std::visit(Print{}, value);
  }
  return text;
}

} // namespace dllm::graph
