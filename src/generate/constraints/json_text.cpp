#include "generate/constraints/json_text.h"

#include "generate/constraints/json_numbers.h"
#include "text/automaton/byte_automaton.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dllm::generate {

std::string grouped(const std::string& pattern) {
  return "(?:" + pattern + ")";
}

std::string exact_json(const Json& value) {
  if (!value.is_structured()) return text::escaped_pattern(value.dump());
  std::string items;
  for (const auto& [key, item] : value.items()) {
    items += items.empty() ? "" : kJsonComma;
    if (value.is_object()) items += exact_json(Json(key)) + kJsonColon;
    items += exact_json(item);
  }
  return value.is_object() ? R"(\{)" + items + R"(\})" : R"(\[)" + items + R"(\])";
}

std::string any_json(int levels) {
  std::string made =
      fmt::format("\"{}*\"|{}|true|false|null", kJsonCharacter, pattern_of_any_number());
  if (levels > 0) {
    const std::string inner = any_json(levels - 1);
    made += fmt::format(R"(|\[(?,(?:{0}){1}*)\]|\{{(?,(?:{0})(?:"{2}*"{3}{1})*)\}})", kJsonComma,
                        inner, kJsonNameCharacter, kJsonColon);
  }
  return grouped(made);
}

} // namespace dllm::generate
