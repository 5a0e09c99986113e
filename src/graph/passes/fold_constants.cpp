// fold_constants: computes exact arithmetic on numbers that are known when the graph is built.
// Functions that engines may round differently (exp, log, ...) are not folded.

#include "graph/op.h"
#include "graph/ops.h"
#include "graph/passes.h"

#include <cmath>
#include <map>
#include <optional>
#include <string_view>

namespace dllm::graph {
namespace {

// A value whose elements are all the same number.
struct Uniform {
  DType dtype;
  double number; // exact for every type that is folded
};

bool is_folded_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::i32 || dtype == DType::u8;
}

// Rounds a number to the type. Returns nothing if an i32 would wrap.
std::optional<double> in_type(DType dtype, double number) {
  if (dtype == DType::f32) return static_cast<double>(static_cast<float>(number));
  if (dtype == DType::i32 && std::abs(number) > 2147483647.0) return std::nullopt;
  return number;
}

// One rounding of the exact double result equals f32 arithmetic for + - * / (Figueroa 1995).
std::optional<double> arithmetic(std::string_view op, DType dtype, double x, double y) {
  if (op == "add") return in_type(dtype, x + y);
  if (op == "subtract") return in_type(dtype, x - y);
  if (op == "multiply") return in_type(dtype, x * y);
  if (op == "minimum" && !std::isnan(x + y)) return std::min(x, y);
  if (op == "maximum" && !std::isnan(x + y)) return std::max(x, y);
  if (op == "divide" && dtype == DType::f32) return in_type(dtype, x / y);
  if (op == "divide" && dtype == DType::i32 && y != 0) return in_type(dtype, std::trunc(x / y));
  return std::nullopt;
}

std::optional<double> comparison(std::string_view op, double x, double y) {
  if (op == "equal") return x == y;
  if (op == "not_equal") return x != y;
  if (op == "less") return x < y;
  if (op == "less_equal") return x <= y;
  if (op == "greater") return x > y;
  if (op == "greater_equal") return x >= y;
  return std::nullopt;
}

class Folder {
public:
  void operator()(Cloner& cloner, Graph& to, int32_t index,
                  std::vector<std::shared_ptr<const Graph>> bodies) {
    const Node& node = cloner.from().nodes()[static_cast<size_t>(index)];
    auto& known = known_[&to];
    if (const auto kept = identity(cloner, to, node, known)) {
      cloner.map(node.outputs[0], *kept);
      return;
    }
    const std::optional<Uniform> number = evaluate(cloner, node, known);
    const ValueType* type =
        node.outputs.size() == 1 ? &cloner.from().type(node.outputs[0]) : nullptr;
    if (!number || type == nullptr || node.inputs.empty() || is_move(node)) {
      copy_node(cloner, to, index, std::move(bodies));
      if (number) known[cloner.at(node.outputs[0]).id] = *number;
      return;
    }
    Tensor literal = Tensor::scalar<double>(number->number).to(number->dtype);
    const Value made = vary(broadcast(constant(to, std::move(literal)), type->shape), type->axes);
    known[made.id] = *number;
    cloner.map(node.outputs[0], made);
  }

private:
  using Known = std::map<int32_t, Uniform>;

  static bool is_move(const Node& node) {
    const std::string_view name = node.op->name;
    return name == "broadcast" || name == "reshape" || name == "vary" || name == "transpose";
  }

  static std::optional<Uniform> look_up(const Known& known, Value x) {
    const auto it = known.find(x.id);
    return it == known.end() ? std::nullopt : std::optional(it->second);
  }

  static std::optional<Uniform> evaluate(Cloner& cloner, const Node& node, const Known& known) {
    const std::string_view name = node.op->name;
    if (name == "constant") {
      if (node.literal.count() != 1 || !is_folded_type(node.literal.dtype())) return std::nullopt;
      return Uniform{node.literal.dtype(), node.literal.to(DType::f64).as<double>()[0]};
    }
    std::vector<Uniform> operands;
    for (int32_t id : node.inputs) {
      const auto operand = look_up(known, cloner.at(id));
      if (!operand) return std::nullopt;
      operands.push_back(*operand);
    }
    if (operands.size() == 1) return evaluate_one(cloner, node, operands[0]);
    if (operands.size() != 2) return std::nullopt;
    const DType result = cloner.from().type(node.outputs[0]).dtype;
    const double x = operands[0].number, y = operands[1].number;
    const auto number = operands[0].dtype == DType::u8 && result != DType::u8
                            ? std::nullopt
                            : arithmetic(name, operands[0].dtype, x, y);
    if (number) return Uniform{operands[0].dtype, *number};
    const auto truth = comparison(name, x, y);
    return truth ? std::optional(Uniform{DType::u8, *truth}) : std::nullopt;
  }

  static std::optional<Uniform> evaluate_one(Cloner& cloner, const Node& node, Uniform x) {
    const std::string_view name = node.op->name;
    if (is_move(node)) return x;
    if (name == "negate") return Uniform{x.dtype, -x.number};
    if (name != "convert") return std::nullopt;
    const DType to = cloner.from().type(node.outputs[0]).dtype;
    if (!is_folded_type(to) || to == DType::u8) return std::nullopt;
    if (to == DType::i32 && !(std::abs(x.number) < 2147483648.0)) return std::nullopt;
    return Uniform{to, *in_type(to, to == DType::i32 ? std::trunc(x.number) : x.number)};
  }

  // x * 1, x / 1, x - 0, and x + 0 for integers are x. For floats -0 + 0 is +0.
  static std::optional<Value> identity(Cloner& cloner, Graph&, const Node& node,
                                       const Known& known) {
    const std::string_view name = node.op->name;
    if (node.inputs.size() != 2) return std::nullopt;
    const Value x = cloner.at(node.inputs[0]), y = cloner.at(node.inputs[1]);
    const auto is = [&](Value value, double number) {
      const auto found = look_up(known, value);
      return found && found->number == number && !std::signbit(found->number);
    };
    const bool whole = x.dtype() == DType::i32;
    if ((name == "multiply" || name == "divide") && is(y, 1)) return x;
    if (name == "multiply" && is(x, 1)) return y;
    if (name == "subtract" && is(y, 0)) return x;
    if (name == "add" && whole && is(y, 0)) return x;
    if (name == "add" && whole && is(x, 0)) return y;
    return std::nullopt;
  }

  std::map<const Graph*, Known> known_;
};

} // namespace

std::shared_ptr<Graph> fold_constants(const Graph& graph) {
  Folder folder;
  BodyMemo memo;
  return rewrite(graph, std::ref(folder), memo);
}

std::shared_ptr<Graph> simplify(const Graph& graph) {
  return remove_dead_code(*merge_common_nodes(*fold_constants(graph)));
}

} // namespace dllm::graph
