#include "shallow_json.h"

namespace dllm::cli {

bool is_deep(std::string_view json) {
  constexpr int kMostDepth = 64;
  int depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_text && c == '\\')
      ++i;
    else if (c == '"')
      is_text = !is_text;
    else if (!is_text && (c == '{' || c == '['))
      ++depth;
    else if (!is_text && (c == '}' || c == ']'))
      --depth;
    if (depth > kMostDepth) return true;
  }
  return false;
}

nlohmann::ordered_json parse_shallow(std::string_view json) {
  if (is_deep(json)) return nlohmann::ordered_json::value_t::discarded;
  return nlohmann::ordered_json::parse(json, nullptr, false);
}

} // namespace dllm::cli
