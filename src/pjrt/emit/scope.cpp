#include "pjrt/emit/scope.h"

#include "base/error.h"
#include "pjrt/emit/build.h"
#include "pjrt/emit/registry.h"

#include <fmt/format.h>
#include <string_view>

namespace dllm::pjrt::hlo {

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
    fail(Code::internal, "[{}] was written as {}, the graph says {}", node.op->name,
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

} // namespace dllm::pjrt::hlo
