// How operations are written: every file of ops/ gives a list.

#include "pjrt/emit/scope.h"

#include <string_view>
#include <unordered_map>

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
