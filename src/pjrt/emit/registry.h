#pragma once
// Which operation is written how: one explicit table, one function per operation in ops/.

#include "pjrt/emit/scope.h"

#include <string_view>

namespace dllm::pjrt::hlo {

using Emitter = void (*)(EmitCall&);

// Null: the operation has no StableHLO form and is to be lowered first.
Emitter find_emitter(std::string_view op);

} // namespace dllm::pjrt::hlo
