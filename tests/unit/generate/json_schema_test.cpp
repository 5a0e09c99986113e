// The pattern of a schema accepts JSON of this schema alone. A small validator and random values
// judge it; both are written for these tests.

#include "base/error.h"
#include "generate/constraints/constraint_kinds.h"
#include "generate/constraints/integer_range.h"
#include "text/automaton/byte_automaton.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace dllm::generate {
namespace {

// Returns the pattern of a request with this schema.
std::string pattern_of_schema(const std::string& schema) {
  static const Schema keys("request", constraint_options());
  Options request(keys);
  request.set_str("json_schema", schema);
  return constraint_pattern(request).value();
}

using Json = nlohmann::ordered_json;
using text::ByteAutomaton;

std::string compact(const Json& value) {
  return value.dump();
}

// Returns JSON with a space after commas and colons, as Python writes it.
std::string spaced(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string made;
  for (const auto& [key, item] : value.items()) {
    made += made.empty() ? "" : ", ";
    if (value.is_object()) made += Json(key).dump() + ": ";
    made += spaced(item);
  }
  return value.is_object() ? "{" + made + "}" : "[" + made + "]";
}

// Counts the characters of a text.
int64_t characters(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

bool is_valid(const Json& schema, const Json& value, const Json& root);

bool is_valid_object(const Json& schema, const Json& value, const Json& root) {
  for (const auto& [key, item] : value.items()) {
    if (!schema["properties"].contains(key)) return false;
    if (!is_valid(schema["properties"][key], item, root)) return false;
  }
  const Json required = schema.value("required", Json::array());
  return std::ranges::all_of(
      required, [&](const Json& key) { return value.contains(key.get<std::string>()); });
}

bool is_valid_type(const Json& schema, const std::string& type, const Json& value,
                   const Json& root) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number_integer() &&
           value.get<int64_t>() >= schema.value("minimum", INT64_MIN) &&
           value.get<int64_t>() <= schema.value("maximum", INT64_MAX);
  }
  if (type == "string") {
    return value.is_string() &&
           characters(value.get<std::string>()) >= schema.value("minLength", int64_t{0}) &&
           characters(value.get<std::string>()) <= schema.value("maxLength", INT64_MAX);
  }
  if (type == "array") {
    const auto count = static_cast<int64_t>(value.size());
    return value.is_array() && count >= schema.value("minItems", int64_t{0}) &&
           count <= schema.value("maxItems", INT64_MAX) &&
           std::ranges::all_of(
               value, [&](const Json& item) { return is_valid(schema["items"], item, root); });
  }
  return value.is_object() && is_valid_object(schema, value, root);
}

bool is_valid(const Json& schema, const Json& value, const Json& root) {
  if (schema.contains("$ref"))
    return is_valid(root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), value,
                    root);
  const Json type = schema.value("type", Json());
  const Json types = type.is_null() || type.is_array() ? type : Json::array({type});
  const bool has_type = type.is_null() || std::ranges::any_of(types, [&](const Json& one) {
                          return is_valid_type(schema, one.get<std::string>(), value, root);
                        });
  if (schema.contains("const")) return has_type && value == schema["const"];
  if (schema.contains("enum"))
    return has_type && std::ranges::find(schema["enum"], value) != schema["enum"].end();
  if (schema.contains("anyOf")) {
    return std::ranges::any_of(schema["anyOf"],
                               [&](const Json& one) { return is_valid(one, value, root); });
  }
  return has_type;
}

class RandomSchemas {
public:
  explicit RandomSchemas(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random_);
  }

  Json schema(int depth) {
    switch (below(depth > 0 ? 9 : 6)) {
    case 0: return string_schema();
    case 1: return integer_schema();
    case 2: return {{"type", "boolean"}, {"title", "a flag"}};
    case 3: return {{"type", "number"}};
    case 4: return enum_schema();
    case 5: return {{"const", {{"k", {1, 2}}}}};
    case 6: return object_schema(depth);
    case 7: {
      Json array = {{"type", "array"}, {"items", schema(depth - 1)}};
      if (below(2) == 0) array["minItems"] = below(3);
      if (below(2) == 0) array["maxItems"] = array.value("minItems", int64_t{0}) + below(3);
      return array;
    }
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
    if (type == "boolean") return below(2) == 0;
    if (type == "number")
      return below(2) == 0 ? Json(static_cast<double>(below(1000)) / 64) : Json(below(50));
    if (type == "integer") {
      const int64_t low = schema.value("minimum", int64_t{-40});
      return low + below(schema.value("maximum", low + 80) - low + 1);
    }
    if (type == "string") return string_of(schema);
    if (type == "array") return array_of(schema);
    Json object = Json::object();
    const Json required = schema.value("required", Json::array());
    for (const auto& [key, own] : schema["properties"].items()) {
      if (std::ranges::find(required, Json(key)) != required.end() || below(2) == 0)
        object[key] = value(own);
    }
    return object;
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
    const int64_t count = low + below(schema.value("maxItems", low + 3) - low + 1);
    Json made = Json::array();
    for (int64_t i = 0; i < count; ++i) made.push_back(value(schema["items"]));
    return made;
  }

  std::mt19937 random_;
};

TEST(JsonSchema, AcceptsAndWritesValuesOfRandomSchemas) {
  int tried = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomSchemas random(seed);
    const Json schema = random.schema(2);
    std::string pattern;
    try {
      pattern = pattern_of_schema(schema.dump());
      const ByteAutomaton automaton(pattern);
      for (int i = 0; i < 10; ++i) {
        const Json value = random.value(schema);
        EXPECT_TRUE(automaton.matches(compact(value))) << schema << "\n" << compact(value);
        EXPECT_TRUE(automaton.matches(spaced(value))) << schema << "\n" << spaced(value);
        const std::string written = random.walk(automaton);
        const Json read = Json::parse(written, nullptr, false);
        EXPECT_FALSE(read.is_discarded()) << schema << "\n" << written;
        EXPECT_TRUE(is_valid(schema, read, schema)) << schema << "\n" << written;
      }
      ++tried;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::resource_exhausted) << error.text() << "\n" << schema;
    }
  }
  EXPECT_GT(tried, 270);
}

TEST(JsonSchema, RangesOfIntegersMatchTheirIntegersAlone) {
  std::mt19937 random(5);
  const auto matches = [](const ByteAutomaton& automaton, int64_t value) {
    return automaton.matches(std::to_string(value));
  };
  for (int round = 0; round < 60; ++round) {
    const auto draw = [&] { return std::uniform_int_distribution<int64_t>(-1200, 1200)(random); };
    const int64_t one = draw(), other = draw();
    const int64_t low = std::min(one, other), high = std::max(one, other);
    const ByteAutomaton automaton(pattern_of_range(low, high));
    for (int64_t value = -1300; value <= 1300; ++value)
      ASSERT_EQ(matches(automaton, value), value >= low && value <= high) << low << " " << high;
    for (const char* text : {"-0", "007", "+1", "1.0", "", "-"})
      EXPECT_FALSE(automaton.matches(text));
  }
  constexpr int64_t kMost = 999'999'999'999'999'999;
  for (const auto& [low, high] : {std::pair<int64_t, int64_t>{-kMost, kMost},
                                  {0, 0},
                                  {-1, -1},
                                  {123'456'789'012, 987'654'321'098},
                                  {-kMost, -kMost + 5},
                                  {kMost - 7, kMost}}) {
    const ByteAutomaton automaton(pattern_of_range(low, high));
    for (const int64_t step : {-2, -1, 0, 1, 2}) {
      EXPECT_EQ(matches(automaton, low + step), low + step >= low && low + step <= high);
      EXPECT_EQ(matches(automaton, high + step), high + step >= low && high + step <= high);
    }
  }
}

TEST(JsonSchema, ReferencesAndTypes) {
  const ByteAutomaton automaton(pattern_of_schema(R"({
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    "type": "object",
    "properties": {"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"},
                   "note": {"type": ["string", "null"]}, "id": {"oneOf": [{"type": "string"}, {"type": "integer"}]}},
    "required": ["from", "note"]})"));
  EXPECT_TRUE(automaton.matches(R"({"from": {"x": 3}, "note": null})"));
  EXPECT_TRUE(automaton.matches(R"({"from":{"x":-3},"to":{"x":0},"note":"a","id":7})"));
  for (const char* text :
       {R"({"note": null})", R"({"from": {}, "note": null})", R"({"from": {"x": 3}})",
        R"({"from": {"x": 3}, "note": 1})", R"({"from": {"x": 3}, "note": null,})",
        R"({"note": null, "from": {"x": 3}})", R"({"from": {"x": 03}, "note": null})"})
    EXPECT_FALSE(automaton.matches(text)) << text;
}

TEST(JsonSchema, RefusesWhatAPatternCannotKeep) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"type": "string", "pattern": "a"})", "json_schema: keyword pattern"},
      {R"({"type": "string", "format": "date"})", "json_schema: keyword format"},
      {R"({"type": "number", "minimum": 1})", "keyword minimum"},
      {R"({"type": "integer", "multipleOf": 3})", "keyword multipleOf"},
      {R"({"type": "integer", "minimum": 5, "maximum": 4})", "no integer is in the range"},
      {R"({"type": "integer", "minimum": 1.5})", "minimum is not an integer"},
      {R"({"type": "array"})", "needs the schema of its items"},
      {R"({"type": "array", "items": {"type": "null"}, "uniqueItems": true})",
       "keyword uniqueItems"},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 2})",
       "minItems is above maxItems"},
      {R"({"type": "object", "properties": {"a": {"type": "strin"}}})",
       "json_schema.a: there is no type \"strin\""},
      {R"({"type": "object", "required": ["a"]})", "required names \"a\""},
      {R"({"properties": {}})", "the schema has no type"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "may have the same values"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}})",
       "#/$defs/a contains itself"},
      {R"({"$ref": "#/$defs/b"})", "there is no #/$defs/b"},
      {R"({"$ref": "#/a~2"})", "there is no #/a~2"},
      {R"({"$ref": "other.json"})", "$ref does not begin with #/"},
      {R"({"not": {"type": "null"}, "type": "string"})", "keyword not"},
      {R"([])", "a schema is an object"},
      {R"({"enum": []})", "enum is not a list"},
      {R"({"type": "string", "const": 5})", "no value of enum or const has the type"},
      {R"({"type": ["strin"], "enum": ["a"]})", "there is no type \"strin\""},
      {R"({"type": "integer", "enum": ["1", 1.5]})", "no value of enum or const"}};
  for (const auto& [schema, words] : rows) {
    try {
      pattern_of_schema(schema);
      ADD_FAILURE() << schema;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << schema;
      EXPECT_NE(error.text().find(words), std::string::npos) << error.text();
    }
  }
  EXPECT_THROW(pattern_of_schema("{"), Error);
}

} // namespace
} // namespace dllm::generate
