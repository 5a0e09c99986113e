#include "generate/constraints/json_merge.h"

#include "base/error.h"
#include "generate/constraints/json_keywords.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace dllm::generate {
namespace {

bool has_value(const Json& values, const Json& value) {
  return std::ranges::any_of(values, [&](const Json& one) { return is_same_value(one, value); });
}

// Returns the values of const and enum; null: the schema has neither.
Json values_of(const Json& schema) {
  if (!schema.contains("const")) return schema.value("enum", Json());
  Json made = Json::array();
  if (has_value(schema.value("enum", Json::array({schema["const"]})), schema["const"]))
    made.push_back(schema["const"]);
  return made;
}

std::string type_of_value(const Json& value) {
  for (const char* type : {"string", "number", "boolean", "null", "array"}) {
    if (is_of_type(value, type)) return type;
  }
  return "object";
}

Json list_of_types(const Json& type) {
  return type.is_array() ? type : Json::array({type});
}

// Merges two schemas keyword by keyword.
class SchemaMerge {
public:
  SchemaMerge(const Json& one, const Json& other, const std::string& where)
      : one_(one), other_(other), where_(where) {}

  std::optional<Json> merged() {
    made_ = one_;
    take_values();
    take_items();
    take_members();
    for (const auto& [key, content] : other_.items()) {
      if (taken_.contains(key) || is_annotation(key)) continue;
      if (!one_.contains(key))
        made_[key] = content;
      else if (one_[key] != content)
        made_[key] = joined(key, one_[key], content);
    }
    leave_out_values();
    return is_possible_ ? std::optional(made_) : std::nullopt;
  }

private:
  [[noreturn]] void refuse(std::string_view key, const std::string& what,
                           const std::string& hint) const {
    fail_with_hint(hint, Code::invalid_argument, "{}: keyword {} {}", where_, key, what);
  }

  bool has(const char* key) const { return one_.contains(key) || other_.contains(key); }
  // Keywords that are merged together: the loop over all of them leaves them out.
  void take(std::initializer_list<const char*> keys) {
    for (const char* key : keys) taken_.insert(key);
  }

  Json joined(const std::string& key, const Json& a, const Json& b) {
    if (key == "type") return common_types(a, b);
    const bool is_least = key.starts_with("min") || key == "exclusiveMinimum";
    const bool is_most = key.starts_with("max") || key == "exclusiveMaximum";
    if (is_least || is_most) {
      if (!a.is_number() || !b.is_number()) refuse(key, "is not a number", "write a number");
      return is_least == (a < b) ? b : a;
    }
    if (key == "required") return either_name(a, b);
    if (key == "anyOf" || key == "oneOf") return products(key, a, b);
    if (key == "propertyNames") return both(a, b);
    refuse(key, fmt::format("is {} and {} in two schemas of one value", a.dump(), b.dump()),
           "write one of them that holds both");
  }

  Json common_types(const Json& a, const Json& b) {
    Json made = Json::array();
    const Json others = list_of_types(b);
    for (const Json& type : list_of_types(a)) {
      if (has_value(others, type) || (type == "integer" && has_value(others, "number")))
        made.push_back(type);
      else if (type == "number" && has_value(others, "integer"))
        made.push_back("integer");
    }
    is_possible_ = is_possible_ && !made.empty();
    return made.size() == 1 ? made[0] : made;
  }

  Json either_name(const Json& a, const Json& b) const {
    if (!a.is_array() || !b.is_array()) refuse("required", "is not a list of names", "write one");
    Json made = a;
    for (const Json& name : b) {
      if (!has_value(made, name)) made.push_back(name);
    }
    return made;
  }

  // A value is of one schema of each list, so it is of one pair of them.
  Json products(const std::string& key, const Json& a, const Json& b) const {
    constexpr size_t kMostPairs = 256;
    if (!a.is_array() || !b.is_array()) refuse(key, "is not a list of schemas", "write one");
    if (a.size() * b.size() > kMostPairs)
      refuse(key, fmt::format("has more than {} pairs of schemas", kMostPairs), "name fewer");
    Json made = Json::array();
    for (const Json& first : a) {
      for (const Json& second : b) made.push_back(both(first, second));
    }
    return made;
  }

  static Json both(const Json& a, const Json& b) { return {{"allOf", Json::array({a, b})}}; }

  void take_values() {
    take({"const", "enum"});
    const Json first = values_of(one_), second = values_of(other_);
    if (first.is_null() && second.is_null()) return;
    Json common = Json::array();
    for (const Json& value : first.is_null() ? second : first) {
      if (second.is_null() || has_value(second, value)) common.push_back(value);
    }
    made_.erase("const");
    is_possible_ = is_possible_ && !common.empty();
    made_["enum"] = common;
  }

  // Leaves out values that are not of a type of the merged schema.
  void leave_out_values() {
    if (!made_.contains("enum") || !made_.contains("type") || !made_["enum"].is_array()) return;
    const Json types = list_of_types(made_["type"]);
    Json left = Json::array();
    for (const Json& value : made_["enum"]) {
      const bool is_left = std::ranges::any_of(types, [&](const Json& type) {
        return type.is_string() && is_of_type(value, type.get<std::string>());
      });
      if (is_left) left.push_back(value);
    }
    is_possible_ = is_possible_ && !left.empty();
    made_["enum"] = left;
  }

  // Returns the schema of an item; null: it may be any.
  static Json item(const Json& schema, size_t at) {
    const Json first = schema.value("prefixItems", Json::array());
    return at < first.size() ? first[at] : schema.value("items", Json());
  }
  static Json both_or_one(const Json& a, const Json& b) {
    return a.is_null() || a == b ? b : b.is_null() ? a : both(a, b);
  }

  void take_items() {
    take({"items", "prefixItems"});
    if (has("items"))
      made_["items"] = both_or_one(one_.value("items", Json()), other_.value("items", Json()));
    if (!has("prefixItems")) return;
    const size_t count = std::max(one_.value("prefixItems", Json::array()).size(),
                                  other_.value("prefixItems", Json::array()).size());
    Json all = Json::array();
    for (size_t i = 0; i < count; ++i) all.push_back(both_or_one(item(one_, i), item(other_, i)));
    made_["prefixItems"] = all;
  }

  // Members that one schema names have to be what the other schema allows under this name.
  void take_members() {
    take({"properties", "additionalProperties", "patternProperties"});
    if (has("patternProperties")) {
      const bool is_alone =
          !one_.contains("properties") && !other_.contains("properties") &&
          !(one_.contains("patternProperties") && other_.contains("patternProperties")) &&
          !has("additionalProperties");
      if (!is_alone) {
        refuse("patternProperties", "is in one of two schemas of one object",
               "write one schema of the object, without allOf");
      }
      made_["patternProperties"] =
          (one_.contains("patternProperties") ? one_ : other_)["patternProperties"];
      return;
    }
    if (has("additionalProperties")) {
      made_["additionalProperties"] = both_or_one(one_.value("additionalProperties", Json()),
                                                  other_.value("additionalProperties", Json()));
    }
    if (!has("properties")) return;
    const Json first = named(one_), second = named(other_);
    Json all = Json::object();
    for (const auto& [name, own] : first.items())
      all[name] = both_or_one(own, member(other_, second, name));
    for (const auto& [name, own] : second.items()) {
      if (!first.contains(name)) all[name] = both_or_one(member(one_, first, name), own);
    }
    made_["properties"] = all;
  }

  Json named(const Json& schema) const {
    const Json made = schema.value("properties", Json::object());
    if (!made.is_object()) refuse("properties", "is not an object", "write one");
    return made;
  }
  static Json member(const Json& schema, const Json& named, const std::string& name) {
    return named.contains(name) ? named[name] : schema.value("additionalProperties", Json());
  }

  const Json &one_, &other_;
  const std::string& where_;
  Json made_;
  std::set<std::string> taken_;
  bool is_possible_ = true;
};

// Returns whether no value is in both lists.
bool have_nothing_in_common(const Json& one, const Json& other) {
  return one.is_array() && other.is_array() &&
         std::ranges::none_of(one, [&](const Json& value) { return has_value(other, value); });
}

bool are_apart_by_type(const Json& one, const Json& other) {
  if (have_nothing_in_common(values_of(one), values_of(other))) return true;
  const auto first = types_of_schema(one), second = types_of_schema(other);
  return !first.empty() && !second.empty() &&
         std::ranges::none_of(first, [&](const std::string& type) {
           return std::ranges::find(second, type) != second.end();
         });
}

bool is_only_object(const Json& schema) {
  return written_types(schema) == std::vector<std::string>{"object"};
}

// Returns whether two schemas are apart, objects by the values of this member.
bool are_apart(const Json& one, const Json& other, const std::string& member) {
  if (are_apart_by_type(one, other)) return true;
  if (member.empty()) return false;
  if (!is_only_object(one) || !is_only_object(other)) return false;
  const auto values = [&](const Json& schema) {
    const Json all = schema.value("properties", Json::object());
    const Json own = all.is_object() ? all.value(member, Json()) : Json();
    return own.is_object() ? values_of(own) : Json();
  };
  return have_nothing_in_common(values(one), values(other));
}

} // namespace

std::vector<std::string> types_of_schema(const Json& schema) {
  if (!schema.is_object()) return {};
  std::set<std::string> types;
  const Json values = values_of(schema);
  if (schema.contains("type")) {
    for (const Json& type : list_of_types(schema["type"])) {
      if (type.is_string()) types.insert(type == "integer" ? "number" : type.get<std::string>());
    }
  } else if (values.is_array()) {
    for (const Json& value : values) types.insert(type_of_value(value));
  }
  return {types.begin(), types.end()};
}

std::vector<std::string> written_types(const Json& schema) {
  std::vector<std::string> own = types_of_schema(schema);
  if (!own.empty() || !schema.is_object()) return own;
  std::set<std::string> types;
  for (const auto& [key, content] : schema.items()) {
    for (const std::string_view type : types_of_keyword(key)) types.insert(std::string(type));
  }
  return {types.begin(), types.end()};
}

std::optional<Json> merged_schemas(const Json& one, const Json& other, const std::string& where) {
  return SchemaMerge(one, other, where).merged();
}

std::optional<std::string> member_that_differs(const std::vector<Json>& schemas) {
  std::vector<std::string> members = {""};
  for (const Json& schema : schemas) {
    const Json all = schema.is_object() ? schema.value("properties", Json()) : Json();
    if (!all.is_object()) continue;
    for (const auto& [name, own] : all.items()) {
      if (!name.empty()) members.push_back(name);
    }
    break;
  }
  for (const std::string& member : members) {
    bool is_apart = true;
    for (size_t i = 0; i < schemas.size(); ++i) {
      for (size_t k = 0; k < i; ++k)
        is_apart = is_apart && are_apart(schemas[i], schemas[k], member);
    }
    if (is_apart) return member;
  }
  return std::nullopt;
}

} // namespace dllm::generate
