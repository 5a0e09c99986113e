#include "graph/engine.h"

#include "base/error.h"

namespace dllm::graph {

std::string Program::text(std::string_view form) const {
  fail_with_hint("use an engine of kind pjrt", Code::unimplemented, "this engine has no program text of form {}", form);
}

std::string Program::find_non_finite(std::span<const BufferRef>, const Task*) { return {}; }

}  // namespace dllm::graph
