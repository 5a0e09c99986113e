#pragma once
// Random JSON schemas, random values of them, and a small validator that judges both.

#include "text/automaton/byte_automaton.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dllm::generate::random_schemas {

using Json = nlohmann::ordered_json;
using text::ByteAutomaton;

// Counts the characters of a text.
inline int64_t characters(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

inline bool is_valid(const Json& schema, const Json& value, const Json& root);

inline bool is_valid_object(const Json& schema, const Json& value, const Json& root) {
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, item] : value.items()) {
    const bool is_named = properties.contains(key);
    const Json own = is_named ? properties[key] : schema.value("additionalProperties", Json(true));
    if (!is_valid(own, item, root)) return false;
    if (!is_valid(schema.value("propertyNames", Json(true)), Json(key), root)) return false;
  }
  const auto count = static_cast<int64_t>(value.size());
  if (count < schema.value("minProperties", int64_t{0})) return false;
  if (count > schema.value("maxProperties", INT64_MAX)) return false;
  const Json required = schema.value("required", Json::array());
  return std::ranges::all_of(
      required, [&](const Json& key) { return value.contains(key.get<std::string>()); });
}

inline bool is_valid_number(const Json& schema, const Json& value) {
  const auto number = value.get<double>();
  const Json divisor = schema.value("multipleOf", Json());
  const bool divides = divisor.is_null() || std::fmod(number, divisor.get<double>()) == 0;
  return divides && number >= schema.value("minimum", -1e300) &&
         number <= schema.value("maximum", 1e300) &&
         number > schema.value("exclusiveMinimum", -1e300) &&
         number < schema.value("exclusiveMaximum", 1e300);
}

inline bool is_valid_array(const Json& schema, const Json& value, const Json& root) {
  const Json first = schema.value("prefixItems", Json::array());
  for (size_t i = 0; i < value.size(); ++i) {
    const Json own = i < first.size() ? first[i] : schema.value("items", Json(true));
    if (!is_valid(own, value[i], root)) return false;
  }
  const auto count = static_cast<int64_t>(value.size());
  return count >= schema.value("minItems", int64_t{0}) &&
         count <= schema.value("maxItems", INT64_MAX);
}

inline bool is_valid_type(const Json& schema, const std::string& type, const Json& value,
                          const Json& root) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number() && is_valid_number(schema, value);
  if (type == "integer") return value.is_number_integer() && is_valid_number(schema, value);
  if (type == "string") {
    return value.is_string() &&
           characters(value.get<std::string>()) >= schema.value("minLength", int64_t{0}) &&
           characters(value.get<std::string>()) <= schema.value("maxLength", INT64_MAX);
  }
  if (type == "array") return value.is_array() && is_valid_array(schema, value, root);
  return value.is_object() && is_valid_object(schema, value, root);
}

inline std::string type_of(const Json& value) {
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_null() ? "null" : "boolean";
}

inline bool is_valid(const Json& schema, const Json& value, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref"))
    return is_valid(root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), value,
                    root);
  const Json type = schema.value("type", Json(type_of(value)));
  const Json types = type.is_array() ? type : Json::array({type});
  const auto is_of = [&](const Json& one) { return is_valid(one, value, root); };
  if (!std::ranges::any_of(types, [&](const Json& one) {
        return is_valid_type(schema, one.get<std::string>(), value, root);
      }))
    return false;
  if (schema.contains("const") && value != schema["const"]) return false;
  const Json values = schema.value("enum", Json::array({value}));
  if (std::ranges::find(values, value) == values.end()) return false;
  const Json any = schema.value("anyOf", Json::array({true}));
  if (std::ranges::none_of(any, is_of)) return false;
  if (schema.contains("oneOf") && std::ranges::count_if(schema["oneOf"], is_of) != 1) return false;
  const Json all = schema.value("allOf", Json::array());
  return std::ranges::all_of(all, is_of);
}

class RandomSchemas {
public:
  explicit RandomSchemas(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random_);
  }

  Json schema(int depth) {
    switch (below(depth > 0 ? 14 : 6)) {
    case 0: return string_schema();
    case 1: return integer_schema();
    case 2: return {{"type", "boolean"}, {"title", "a flag"}};
    case 3: return number_schema();
    case 4: return enum_schema();
    case 5: return {{"const", {{"k", {1, 2}}}}};
    case 6: return object_schema(depth);
    case 7: {
      Json array = {{"type", "array"}, {"items", schema(depth - 1)}};
      if (below(2) == 0) array["minItems"] = below(3);
      if (below(2) == 0) array["maxItems"] = array.value("minItems", int64_t{0}) + below(3);
      return array;
    }
    case 8: return tuple_schema(depth);
    case 9: return free_object_schema(depth);
    case 10: return all_of_schema(depth);
    case 11: return tagged_schema(depth);
    case 12: return depth > 1 ? schema(1) : Json(true);
    default: return {{"anyOf", {schema(depth - 1), schema(depth - 1)}}};
    }
  }

  // Some values are not of the type, and no answer has them.
  Json enum_schema() {
    Json made = {{"enum", {"a+b", "\"q\"\\", nullptr, 1.5, 2, "\xC3\xA4"}}};
    const Json types[] = {"string", "number", "integer", {"null", "string"}, {"integer", "null"}};
    if (below(2) == 0) made["type"] = types[below(std::ssize(types))];
    return made;
  }

  // Returns a value of the schema.
  Json value(const Json& schema) {
    if (schema.is_boolean()) return any_value(2);
    if (schema.contains("allOf")) {
      Json made = Json::object();
      for (const Json& one : schema["allOf"]) made.update(object_of(one));
      return made;
    }
    if (schema.contains("oneOf"))
      return value(schema["oneOf"][static_cast<size_t>(below(std::ssize(schema["oneOf"])))]);
    if (schema.contains("const")) return schema["const"];
    for (const char* key : {"enum", "anyOf"}) {
      if (!schema.contains(key)) continue;
      for (;;) {
        const Json& one =
            schema[key][static_cast<size_t>(below(static_cast<int64_t>(schema[key].size())))];
        if (std::string(key) == "anyOf") return value(one);
        if (is_valid(schema, one, schema)) return one;
      }
    }
    const auto type = schema["type"].get<std::string>();
    if (type == "null") return nullptr;
    if (type == "boolean") return below(2) == 0;
    if (type == "number" || type == "integer") return number_of(schema, type == "integer");
    if (type == "string") return string_of(schema);
    if (type == "array") return array_of(schema);
    return object_of(schema);
  }

  // Returns a text that the automaton accepts. Every state leads to such a text.
  std::string walk(const ByteAutomaton& automaton) {
    std::string made;
    int32_t state = automaton.begin();
    while (!automaton.accepts(state) || (made.size() < 200 && below(4) != 0)) {
      std::vector<uint8_t> next;
      for (int byte = 0; byte < 256; ++byte) {
        if (automaton.next(state, static_cast<uint8_t>(byte)) != ByteAutomaton::kDead)
          next.push_back(static_cast<uint8_t>(byte));
      }
      if (next.empty()) break;
      uint8_t byte = next[static_cast<size_t>(below(static_cast<int64_t>(next.size())))];
      // Loops of texts, lists and digits end by these.
      for (const char closing : {'"', ']', '}'}) {
        const bool may_close = std::ranges::find(next, static_cast<uint8_t>(closing)) != next.end();
        if (may_close && (below(3) == 0 || made.size() > 200)) byte = static_cast<uint8_t>(closing);
      }
      made += static_cast<char>(byte);
      state = automaton.next(state, byte);
    }
    return made;
  }

private:
  Json object_of(const Json& schema) {
    Json object = Json::object();
    const Json required = schema.value("required", Json::array());
    const Json additional = schema.value("additionalProperties", Json(false));
    do {
      object.clear();
      for (const auto& [key, own] : schema["properties"].items()) {
        if (std::ranges::find(required, Json(key)) != required.end() || below(2) == 0)
          object[key] = value(own);
      }
      for (const char* name : {"k", "", "\"'", "\xC3\xA4\n"}) {
        if (additional != Json(false) && below(2) == 0) object[name] = value(additional);
      }
    } while (!is_valid_object(schema, object, schema));
    return object;
  }
  Json any_value(int levels) {
    switch (below(levels > 0 ? 6 : 4)) {
    case 0: return nullptr;
    case 1: return below(2) == 0;
    case 2: return string_of(Json::object());
    case 3: return below(2) == 0 ? Json(below(1000) - 500) : Json(1.5);
    case 4: return Json::array({any_value(levels - 1), any_value(levels - 1)});
    default: return {{"a", any_value(levels - 1)}, {"\"", any_value(levels - 1)}};
    }
  }
  Json free_object_schema(int depth) {
    Json made = {{"type", "object"}, {"properties", Json::object()}};
    made["additionalProperties"] = depth > 1 && below(4) == 0 ? Json(true) : schema(0);
    if (below(2) == 0) made["properties"]["a"] = schema(0);
    if (below(2) == 0) made["properties"]["b\\"] = schema(0);
    if (made["properties"].contains("a") && below(2) == 0) made["required"] = Json::array({"a"});
    if (below(3) == 0) made["propertyNames"] = {{"maxLength", 1 + below(4)}};
    if (below(3) == 0) made["minProperties"] = below(2);
    if (below(3) == 0) made["maxProperties"] = 1 + below(3);
    return made;
  }
  // Two schemas of one object.
  Json all_of_schema(int depth) {
    const Json one = {{"type", "object"}, {"properties", {{"a", schema(depth - 1)}}}};
    const Json two = {{"properties", {{"b", schema(depth - 1)}}}, {"required", {"b"}}};
    return {{"allOf", {one, two}}, {"description", "both"}};
  }
  // Objects that a member keeps apart, and null.
  Json tagged_schema(int depth) {
    const auto object = [&](const char* tag) {
      return Json{{"type", "object"},
                  {"properties", {{"v", schema(depth - 1)}, {"t", {{"const", tag}}}}},
                  {"required", {"t"}}};
    };
    return {{"oneOf", {object("x"), object("y"), {{"type", "null"}}}}};
  }
  Json string_schema() {
    Json made = {{"type", "string"}};
    if (below(2) == 0) made["minLength"] = below(4);
    if (below(2) == 0) made["maxLength"] = made.value("minLength", int64_t{0}) + below(4);
    return made;
  }
  Json integer_schema() {
    Json made = {{"type", "integer"}};
    if (below(2) == 0) return made;
    made["minimum"] = below(2000) - 1000;
    made["maximum"] = made["minimum"].get<int64_t>() + below(3000);
    if (below(3) == 0) {
      made["maximum"] = made["maximum"].get<int64_t>() + 50.0;
      made["multipleOf"] = 1 + below(40);
    }
    return made;
  }
  Json number_schema() {
    Json made = {{"type", "number"}};
    const double low = static_cast<double>(below(4000) - 2000) / 100;
    if (below(2) == 0) made[below(2) == 0 ? "minimum" : "exclusiveMinimum"] = low;
    if (below(2) == 0)
      made[below(2) == 0 ? "maximum" : "exclusiveMaximum"] = std::round(100 * low + 250) / 100;
    return made;
  }
  Json number_of(const Json& schema, bool is_whole) {
    const double low = schema.value("minimum", schema.value("exclusiveMinimum", -40.0));
    for (;;) {
      const int64_t step = below(4000);
      const Json one = is_whole || below(4) == 0
                           ? Json(static_cast<int64_t>(low) + step)
                           : Json(std::round(100 * low + static_cast<double>(step % 300)) / 100);
      if (is_valid_number(schema, one)) return one;
    }
  }
  Json tuple_schema(int depth) {
    Json made = {{"type", "array"}, {"prefixItems", {schema(depth - 1), integer_schema()}}};
    made["items"] = below(2) == 0 ? Json(false) : string_schema();
    if (below(2) == 0) made["minItems"] = below(3);
    return made;
  }
  Json object_schema(int depth) {
    Json made = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    made["additionalProperties"] = false;
    const char* names[] = {"a", "b.c", "x y", "\"", "\xC3\xA4"};
    for (const char* name : names) {
      if (below(2) == 0) continue;
      made["properties"][name] = schema(depth - 1);
      if (below(2) == 0) made["required"].push_back(name);
    }
    const auto all = static_cast<int64_t>(made["properties"].size());
    if (below(3) == 0) made["minProperties"] = below(all + 1);
    if (below(3) == 0) {
      const int64_t least =
          std::max(made.value("minProperties", int64_t{0}), std::ssize(made["required"]));
      made["maxProperties"] = least + below(all - least + 1);
    }
    return made;
  }
  Json string_of(const Json& schema) {
    const int64_t low = schema.value("minLength", int64_t{0});
    const int64_t count = low + below(schema.value("maxLength", low + 6) - low + 1);
    const char* letters[] = {"a", "\"", "\\", "\n", "\x01", "\xE2\x82\xAC", " ", "/"};
    std::string made;
    for (int64_t i = 0; i < count; ++i) made += letters[below(8)];
    return made;
  }
  Json array_of(const Json& schema) {
    const int64_t low = schema.value("minItems", int64_t{0});
    int64_t count = low + below(schema.value("maxItems", low + 3) - low + 1);
    const Json first = schema.value("prefixItems", Json::array()), items = schema["items"];
    if (items == Json(false)) count = std::min(count, std::ssize(first));
    Json made = Json::array();
    for (int64_t i = 0; i < count; ++i)
      made.push_back(value(i < std::ssize(first) ? first[static_cast<size_t>(i)] : items));
    return made;
  }

  std::mt19937 random_;
};

} // namespace dllm::generate::random_schemas
