// The module of a graph, the values of its function, and the table that joins the emitters of ops/.
#include "pjrt/emit/emit.h"

#include "base/error.h"
#include "base/named_table.h"

#include <fmt/format.h>

#include <cctype>
#include <string_view>
#include <unordered_map>

namespace dllm::pjrt {

namespace {

using namespace hlo;

// Returns the graph's name with _ for characters that MLIR does not allow in names of modules.
// Profiles show the name.
std::string module_name(const std::string& name) {
  std::string safe;
  for (const char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return safe.empty() || std::isdigit(static_cast<unsigned char>(safe[0])) ? "graph_" + safe : safe;
}

// Returns the index of the output that takes over the memory of an input, or -1.
int64_t aliased_output(const graph::Graph& graph, size_t input) {
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i].donated_input == static_cast<int32_t>(input))
      return static_cast<int64_t>(i);
  }
  return -1;
}

std::string signature(const graph::Graph& graph, const Ssas& arguments) {
  std::string text = "  func.func public @main(";
  for (size_t i = 0; i < arguments.size(); ++i) {
    text +=
        fmt::format("{}%{}: {}", i > 0 ? ", " : "", arguments[i].number, arguments[i].type.text());
    const int64_t output = aliased_output(graph, i);
    if (output >= 0) text += fmt::format(" {{tf.aliasing_output = {} : i32}}", output);
  }
  text += ") -> (";
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const graph::ValueType& type = graph.type(graph.outputs()[i].value);
    text += (i > 0 ? ", " : "") + Type{element_of(type.dtype), type.shape}.text();
  }
  return text + ") {\n";
}

void check(const EmitOptions& options) {
  if (options.compute != DType::f32 && options.compute != DType::bf16) {
    fail(Code::invalid_argument, "products compute in f32 or bf16, not {}",
         dtype_name(options.compute));
  }
  static constexpr std::string_view kPrecisions[] = {"highest", "high", "default"};
  need_named(kPrecisions, options.precision, std::identity(),
             {"precision", "", "", Code::invalid_argument});
}

} // namespace

std::string emit(const graph::Graph& graph, const EmitOptions& options) {
  check(options);
  Writer writer;
  Ssas arguments;
  std::vector<Slot> slots;
  for (const graph::GraphInput& input : graph.inputs()) {
    const graph::ValueType& type = graph.type(input.value);
    arguments.push_back(writer.argument({element_of(type.dtype), type.shape}));
    slots.push_back({arguments.back(), {}, {}, {}});
  }
  Scope scope(graph, writer, options);
  scope.write(slots);
  writer.end_function(scope.plain_outputs());
  return "module @" + module_name(graph.name()) + " {\n" + signature(graph, arguments) +
         writer.take_text() + "  }\n}\n";
}

namespace hlo {

void Scope::write(const std::vector<Slot>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) slot(graph_.inputs()[i].value) = inputs[i];
  for (const graph::Node& node : graph_.nodes()) {
    const Emitter emitter = find_emitter(node.op->name);
    if (emitter == nullptr) {
      fail_with_hint("lower the graph first", Code::unimplemented,
                     "operation {} has no StableHLO form", node.op->name);
    }
    EmitCall call(*this, node);
    emitter(call);
  }
}

Ssa Scope::plain(int32_t value) {
  Slot& s = slot(value);
  if (!s.plain.defined()) s.plain = build::convert(w_, s.truth, Element::ui8);
  return s.plain;
}

Ssa Scope::predicate(int32_t value) {
  Slot& s = slot(value);
  if (s.truth.defined()) return s.truth;
  if (!s.test.defined()) s.test = build::compare_with(w_, build::Order::ne, s.plain, 0);
  return s.test;
}

Ssas Scope::plain_outputs() {
  Ssas results;
  for (const graph::GraphOutput& output : graph_.outputs()) results.push_back(plain(output.value));
  return results;
}

Ssa EmitCall::moved(size_t index) {
  const Slot& s = slot(index);
  return s.truth.defined() && !s.plain.defined() ? s.truth : in(index);
}

Type EmitCall::out_type(size_t index) const {
  const graph::ValueType& type = scope_.graph().type(node.outputs[index]);
  return {element_of(type.dtype), type.shape};
}

void EmitCall::out(size_t index, const Ssa& value) {
  const Type wanted = out_type(index);
  const bool truth = value.element() == Element::i1 && wanted.element == Element::ui8;
  if (!(value.shape() == wanted.shape) || (!truth && value.element() != wanted.element)) {
    fail(Code::internal, "[{}] was written as {}, but the graph has {}", node.op->name,
         value.type.text(), wanted.text());
  }
  (truth ? out_slot(index).truth : out_slot(index).plain) = value;
}

const graph::Node* EmitCall::producer(size_t index) const {
  const int32_t made_by = scope_.graph().producer(node.inputs[index]);
  return made_by < 0 ? nullptr : &scope_.graph().nodes()[static_cast<size_t>(made_by)];
}

std::optional<int64_t> EmitCall::same_integer(size_t index) const {
  const graph::Node* from = producer(index);
  while (from != nullptr) {
    const std::string_view name = from->op->name;
    if (name == "constant") break;
    if (name != "broadcast" && name != "reshape" && name != "vary") return {};
    const int32_t made_by = scope_.graph().producer(from->inputs[0]);
    from = made_by < 0 ? nullptr : &scope_.graph().nodes()[static_cast<size_t>(made_by)];
  }
  if (from == nullptr || from->literal.count() != 1) return {};
  switch (from->literal.dtype()) {
  case DType::i32: return from->literal.as<int32_t>()[0];
  case DType::u32: return from->literal.as<uint32_t>()[0];
  default: return {};
  }
}

} // namespace hlo

} // namespace dllm::pjrt

namespace dllm::pjrt::hlo {

namespace ops {

EmitterList binary_emitters();
EmitterList collective_emitters();
EmitterList constant_emitters();
EmitterList convert_emitters();
EmitterList dot_emitters();
EmitterList index_emitters();
EmitterList loops_emitters();
EmitterList movement_emitters();
EmitterList order_emitters();
EmitterList reduce_emitters();
EmitterList unary_emitters();

} // namespace ops

namespace {

constexpr EmitterList (*kLists[])() = {
    ops::binary_emitters, ops::collective_emitters, ops::constant_emitters, ops::convert_emitters,
    ops::dot_emitters,    ops::index_emitters,      ops::loops_emitters,    ops::movement_emitters,
    ops::order_emitters,  ops::reduce_emitters,     ops::unary_emitters,
};

using EmitterTable = std::unordered_map<std::string_view, Emitter>;

EmitterTable table_of_lists() {
  EmitterTable table;
  for (const auto list : kLists) {
    for (const EmitterEntry& entry : list()) table.emplace(entry.op, entry.emit);
  }
  return table;
}

} // namespace

Emitter find_emitter(std::string_view op) {
  static const EmitterTable table = table_of_lists();
  const auto found = table.find(op);
  return found != table.end() ? found->second : nullptr;
}

} // namespace dllm::pjrt::hlo
