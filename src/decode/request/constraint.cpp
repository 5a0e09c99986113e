#include "decode/request/constraint.h"

namespace dllm::decode {

BanRow Constraint::ban(const Request& request, int64_t position, const BanRow& banned) const {
  const auto made = std::make_shared<std::vector<uint8_t>>(*banned);
  for (size_t token = 0; token < made->size(); ++token) {
    if (!allows(request, position, static_cast<int32_t>(token))) (*made)[token] = 1;
  }
  return made;
}

} // namespace dllm::decode
