#include "decode/request/constraint.h"

namespace dllm::decode {

BanRow Constraint::ban(const Request& request, int64_t position, const BanRow& banned) const {
  const auto made = std::make_shared<std::vector<uint8_t>>(*banned);
  for (size_t token = 0; token < made->size(); ++token) {
    if (!allows(request, position, static_cast<int32_t>(token))) (*made)[token] = 1;
  }
  return made;
}

std::vector<BanRow> Constraint::bans(const Request& request, std::span<const int64_t> positions,
                                     const BanRow& banned, const Workers& workers) const {
  std::vector<BanRow> made;
  for (const int64_t position : positions) {
    workers.check();
    made.push_back(ban(request, position, banned));
  }
  return made;
}

} // namespace dllm::decode
