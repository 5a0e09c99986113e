#include "graph/op.h"

#include "base/error.h"

#include <algorithm>
#include <string_view>

namespace dllm::graph {

const OpDef& find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it =
      std::lower_bound(ops.begin(), ops.end(), name, [](const OpDef* op, std::string_view wanted) {
        return std::string_view(op->name) < wanted;
      });
  if (it != ops.end() && (*it)->name == name) return **it;
  std::vector<const char*> names;
  for (const OpDef* op : ops) names.push_back(op->name);
  const std::string near = nearest(std::string(name), names.data(), names.size());
  fail_with_hint(near.empty() ? "" : "did you mean " + near, Code::not_found,
                 "no operation named {}", name);
}

void fail_op(const OpCall& call, const std::string& what) {
  fail(Code::invalid_argument, "[{}] {}", call.op.name, what);
}

} // namespace dllm::graph
