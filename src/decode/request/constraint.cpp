#include "decode/request/constraint.h"

namespace dllm::decode {

void Constraint::ban(const Request& request, int64_t position, std::span<uint8_t> banned) const {
  for (size_t token = 0; token < banned.size(); ++token) {
    if (!allows(request, position, static_cast<int32_t>(token))) banned[token] = 1;
  }
}

} // namespace dllm::decode
