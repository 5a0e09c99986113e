#include "generate/constraints/json_keywords.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace dllm::generate {
namespace {

using Names = std::vector<std::string_view>;

const std::vector<std::pair<std::string_view, Names>>& type_keywords() {
  static const Names numbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                "multipleOf"};
  static const std::vector<std::pair<std::string_view, Names>> all = {
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"integer", numbers},
      {"number", numbers},
      {"boolean", {}},
      {"null", {}},
      {"array", {"items", "prefixItems", "minItems", "maxItems", "unevaluatedItems"}},
      {"object",
       {"properties", "required", "minProperties", "maxProperties", "additionalProperties",
        "patternProperties", "propertyNames", "unevaluatedProperties"}}};
  return all;
}

constexpr std::string_view kAnnotations[] = {"$schema",
                                             "$id",
                                             "$comment",
                                             "$defs",
                                             "$anchor",
                                             "$vocabulary",
                                             "title",
                                             "default",
                                             "example",
                                             "examples",
                                             "readOnly",
                                             "description",
                                             "writeOnly",
                                             "deprecated",
                                             "xml",
                                             "nullable",
                                             "definitions",
                                             "discriminator",
                                             "contentMediaType",
                                             "contentSchema",
                                             "externalDocs"};

// What to try in place of keywords that have no pattern.
constexpr std::pair<std::string_view, std::string_view> kOtherWays[] = {
    {"not", "name the values that are allowed, with enum, pattern or anyOf"},
    {"if", "write anyOf of two objects, each with a const of the member that decides"},
    {"then", "write anyOf of two objects, each with a const of the member that decides"},
    {"else", "write anyOf of two objects, each with a const of the member that decides"},
    {"contains", "write prefixItems with the item first, or check the answer for it"},
    {"uniqueItems", "list the arrays in an enum, or leave it out and check the answer for it"},
    {"dependentRequired", "write anyOf of an object with the member and one without it"},
    {"dependentSchemas", "write anyOf of an object with the member and one without it"},
    {"$dynamicRef", "write $ref"}};

} // namespace

const Names* keywords_of_type(std::string_view type) {
  const auto row =
      std::ranges::find(type_keywords(), type, [](const auto& one) { return one.first; });
  return row == type_keywords().end() ? nullptr : &row->second;
}

Names types_of_keyword(std::string_view keyword) {
  Names types;
  for (const auto& [type, keywords] : type_keywords()) {
    const bool is_own = std::ranges::find(keywords, keyword) != keywords.end();
    if (is_own && type != "integer") types.push_back(type);
  }
  return types;
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
  }
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return type == "array" ? value.is_array() : type == "object" && value.is_object();
}

bool is_same_value(const Json& a, const Json& b) {
  return nlohmann::json(a) == nlohmann::json(b);
}

bool is_annotation(std::string_view keyword) {
  return keyword.starts_with("x-") ||
         std::ranges::find(kAnnotations, keyword) != std::end(kAnnotations);
}

void check_keywords(const Json& schema, const Names& known, const std::string& where) {
  for (const auto& [key, content] : schema.items()) {
    if (is_annotation(key) || std::ranges::find(known, key) != known.end()) continue;
    if (key == "uniqueItems" && content == Json(false)) continue;
    const auto* way = std::ranges::find(kOtherWays, key, [](const auto& one) { return one.first; });
    const bool has_way = way != std::end(kOtherWays);
    fail_with_hint(has_way ? std::string(way->second) : "leave it out, and check the answer for it",
                   Code::invalid_argument, "{}: keyword {} is not supported here", where, key);
  }
}

} // namespace dllm::generate
