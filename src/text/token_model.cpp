#include "text/token_model.h"

#include "text/json_reader.h"

#include <fmt/core.h>

namespace dllm::text {

std::string byte_token(unsigned char byte) {
  return fmt::format("<0x{:02X}>", byte);
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = 16 * value + digit;
  }
  return value;
}

std::string vocabulary_json(const Vocabulary& vocabulary) {
  std::string out = "{";
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    if (out.size() > 1) out += ',';
    out += json_string(vocabulary.token(id));
    out += ':';
    out += std::to_string(id);
  }
  return out + "}";
}

} // namespace dllm::text
