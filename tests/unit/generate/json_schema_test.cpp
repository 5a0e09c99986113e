// The pattern of a schema accepts JSON of this schema alone. A small validator and random values
// judge it (random_schemas.h).

#include "base/error.h"
#include "generate/constraints/constraint_kinds.h"
#include "generate/constraints/integer_range.h"
#include "text/automaton/byte_automaton.h"
#include "unit/generate/random_schemas.h"
#include "unit/test_files.h"

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
  return chosen_constraint(request)->pattern(request);
}

using random_schemas::is_valid;
using random_schemas::Json;
using random_schemas::RandomSchemas;
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
      EXPECT_NE(error.text().find("needs more than"), std::string::npos) << error.text() << "\n"
                                                                         << schema;
    }
  }
  EXPECT_GT(tried, 270);
}

// Four levels of 24 members that may be left out are billions of copies.
TEST(JsonSchema, RefusesWhatGrowsTooFast) {
  for (const int members : {16, 24, 60}) {
    Json own = {{"type", "object"}, {"properties", Json::object()}};
    for (int i = 0; i < members; ++i)
      own["properties"]["p" + std::to_string(i)] = {{"$ref", "#/$defs/t"}};
    const Json schema = {{"$ref", "#/$defs/t"}, {"$defs", {{"t", own}}}};
    test::expect_error(Code::invalid_argument, "is written out to more than",
                       [&] { pattern_of_schema(schema.dump()); });
  }
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

// Returns all decimals from -limit to limit with at most two digits after the point, as texts.
std::vector<std::pair<std::string, double>> decimals(int64_t limit) {
  std::vector<std::pair<std::string, double>> all;
  for (int64_t hundreds = 0; hundreds <= 100 * limit; ++hundreds) {
    const std::string whole = std::to_string(hundreds / 100);
    const std::string rest = {static_cast<char>('0' + hundreds / 10 % 10),
                              static_cast<char>('0' + hundreds % 10)};
    std::vector<std::string> texts = {whole + "." + rest};
    if (rest[1] == '0') texts.push_back(whole + "." + rest[0]);
    if (rest == "00") texts.push_back(whole);
    for (const std::string& text : texts) {
      all.emplace_back(text, std::stod(text));
      if (hundreds > 0) all.emplace_back("-" + text, -std::stod(text));
    }
  }
  return all;
}

TEST(JsonSchema, RangesOfNumbersMatchTheirNumbersAlone) {
  std::mt19937 random(7);
  const auto all = decimals(24);
  for (int round = 0; round < 60; ++round) {
    Json schema = {{"type", "number"}};
    const int64_t unit = std::vector<int64_t>{1, 10, 100}[random() % 3]; // of the bounds
    const auto draw = [&] {
      const auto steps = std::uniform_int_distribution<int64_t>(-20 * unit, 20 * unit)(random);
      return static_cast<double>(steps) / static_cast<double>(unit);
    };
    const double one = draw(), other = draw(), low = std::min(one, other);
    const double high = std::max(one, other);
    if (round % 4 != 1) schema[random() % 2 == 0 ? "minimum" : "exclusiveMinimum"] = low;
    if (round % 4 != 2) schema[random() % 2 == 0 ? "maximum" : "exclusiveMaximum"] = high + 0.25;
    const ByteAutomaton automaton(pattern_of_schema(schema.dump()));
    for (const auto& [text, value] : all)
      ASSERT_EQ(automaton.matches(text), is_valid(schema, Json(value), schema)) << schema << text;
    for (const char* text : {"-0", "-0.0", "00", "01.5", "1.", ".5", "1e1", "+1", "", "-"})
      EXPECT_FALSE(automaton.matches(text)) << schema << text;
  }
}

TEST(JsonSchema, NumbersNextToBoundsOfManyDigits) {
  const auto matches = [](const char* schema, const char* text) {
    return ByteAutomaton(pattern_of_schema(schema)).matches(text);
  };
  const char* share = R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.0})";
  for (const char* text : {"0.00000000000001", "0.5", "0.99999999999999", "0.10"})
    EXPECT_TRUE(matches(share, text)) << text;
  for (const char* text : {"0", "0.0", "1", "0.99999999999999999", "0.000000000000001", "-0.5"})
    EXPECT_FALSE(matches(share, text)) << text;
  const char* from = R"({"type": "number", "minimum": 1234.5})";
  for (const char* text : {"1234.5", "1234.50000000001", "1235", "999999999999999999.9"})
    EXPECT_TRUE(matches(from, text)) << text;
  for (const char* text : {"1234.4", "1234.49999999999", "999", "-1235"})
    EXPECT_FALSE(matches(from, text)) << text;
  EXPECT_TRUE(matches(R"({"type": "integer", "maximum": 9223372036854775807})", "12"));
  EXPECT_TRUE(matches(R"({"type": "integer", "minimum": -1.5, "maximum": 2e0})", "-1"));
  EXPECT_FALSE(matches(R"({"type": "integer", "minimum": -1.5})", "-2"));
  EXPECT_FALSE(matches(R"({"type": "integer", "exclusiveMinimum": 1.0})", "1"));
  EXPECT_TRUE(matches(R"({"type": "integer", "exclusiveMinimum": 1.5})", "2"));
}

TEST(JsonSchema, MultiplesAreThoseOfTheirDivisor) {
  std::mt19937 random(11);
  for (const int64_t divisor : {1, 2, 3, 7, 10, 16, 25, 60, 97, 100, 125, 997, 1000}) {
    const int64_t low = -1500 + static_cast<int64_t>(random() % 500), high = low + 2500;
    for (const char* type : {"integer", "number"}) {
      const Json schema = {{"type", type},
                           {"minimum", low},
                           {"maximum", static_cast<double>(high) + 0.5},
                           {"multipleOf", static_cast<double>(divisor)}};
      const ByteAutomaton automaton(pattern_of_schema(schema.dump()));
      for (int64_t value = -1600; value <= 1600; ++value) {
        const bool wanted = value >= low && value <= high && value % divisor == 0;
        ASSERT_EQ(automaton.matches(std::to_string(value)), wanted) << schema << value;
      }
      EXPECT_FALSE(automaton.matches("00"));
      EXPECT_FALSE(automaton.matches(""));
    }
  }
  const ByteAutomaton free(pattern_of_schema(R"({"type": "integer", "multipleOf": 1000})"));
  EXPECT_TRUE(free.matches("-123456789012345000"));
  EXPECT_FALSE(free.matches("123456789012345100"));
}

TEST(JsonSchema, MultiplesOfPartsOfOne) {
  for (const double divisor : {0.5, 0.25, 0.125, 0.2, 0.1, 0.01, 0.05}) {
    for (const bool has_bounds : {false, true}) {
      Json schema = {{"type", "number"}, {"multipleOf", divisor}};
      if (has_bounds) schema["minimum"] = -1.5, schema["exclusiveMaximum"] = 2.0;
      const ByteAutomaton automaton(pattern_of_schema(schema.dump()));
      for (int64_t thousands = -3000; thousands <= 3000; ++thousands) {
        const double value = static_cast<double>(thousands) / 1000;
        const auto step = static_cast<int64_t>(std::lround(divisor * 1000));
        const bool is_in = !has_bounds || (thousands >= -1500 && thousands < 2000);
        const bool is_whole = thousands % 1000 == 0;
        const std::string text = is_whole ? std::to_string(thousands / 1000) : Json(value).dump();
        ASSERT_EQ(automaton.matches(text), is_in && thousands % step == 0) << schema << value;
      }
    }
  }
  const ByteAutomaton whole(pattern_of_schema(R"({"type": "integer", "multipleOf": 0.5})"));
  EXPECT_TRUE(whole.matches("-7"));
}

TEST(JsonSchema, TuplesAndNumbersOfMembers) {
  const auto all = [](const char* schema, const std::vector<std::string>& yes,
                      const std::vector<std::string>& no) {
    const ByteAutomaton automaton(pattern_of_schema(schema));
    for (const std::string& text : yes) EXPECT_TRUE(automaton.matches(text)) << schema << text;
    for (const std::string& text : no) EXPECT_FALSE(automaton.matches(text)) << schema << text;
  };
  all(R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": false})",
      {"[]", "[null]", "[null, true]"}, {"[true]", "[null,true,true]", "[,null]"});
  all(R"({"type": "array", "prefixItems": [{"type": "null"}], "items": {"const": 1}, "minItems": 2,
       "maxItems": 3})",
      {"[null,1]", "[null, 1, 1]"}, {"[null]", "[null,1,1,1]", "[1,1]"});
  all(R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1})",
      {"[]", "[1]"}, {"[1,2]"});
  const std::string abc =
      R"("properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}})";
  all((R"({"type": "object", "minProperties": 1, )" + abc + "}").c_str(),
      {R"({"a":1})", R"({"c":1})", R"({"a":1,"c":1})"}, {"{}"});
  all((R"({"type": "object", "minProperties": 2, "maxProperties": 2, "required": ["b"], )" + abc +
       "}")
          .c_str(),
      {R"({"a":1,"b":1})", R"({"b":1,"c":1})"},
      {R"({"b":1})", R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"});
  all((R"({"type": "object", "maxProperties": 0, )" + abc + "}").c_str(), {"{}"}, {R"({"a":1})"});
  all(R"({"type": ["integer", "null"], "minimum": 3, "maximum": 5})", {"null", "3", "5"},
      {"2", "6"});
  all(R"({"type": ["string", "number", "null"], "maxLength": 1, "maximum": 1.5})",
      {"null", R"("a")", "1.5", "-7"}, {R"("ab")", "1.6"});
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

void expect_texts(const char* schema, const std::vector<std::string>& yes,
                  const std::vector<std::string>& no) {
  const ByteAutomaton automaton(pattern_of_schema(schema));
  for (const std::string& text : yes) EXPECT_TRUE(automaton.matches(text)) << schema << text;
  for (const std::string& text : no) EXPECT_FALSE(automaton.matches(text)) << schema << text;
}

TEST(JsonSchema, ObjectsWithFreeMembers) {
  expect_texts(R"({"type": "object", "additionalProperties": {"type": "integer"}})",
               {"{}", R"({"a":1})", R"({"": 1, "\"\\\n": 2})"},
               {R"({"\u00E4":1})", R"({"a":"b"})", R"({"a":1,})", R"({a:1})", "{,}"});
  expect_texts(R"({"type": "object"})",
               {"{}", R"({"a":{"b":{"c":{"d":1}}}})", R"({"a":[1, null, {"b":[true]}]})"},
               {"[]", R"({"a":{"b":{"c":{"d":[]}}}})", R"({"a":[[[[1]]]]})"});
  expect_texts(R"({"type": "object", "properties": {}})", {"{}"}, {R"({"a":1})"});
  // A name that the schema gives has its own schema, however it is written.
  expect_texts(R"({"type": "object", "properties": {"a": {"const": 1}, "b\"": {"const": 2}},
                   "required": ["b\""], "additionalProperties": {"type": "null"}})",
               {R"({"b\"":2})", R"({"a":1,"b\"":2,"aa":null,"c":null})", R"({"b\"":2, "b":null})"},
               {R"({"b\"":2,"a":null})", R"({"b\"":2,"\u0061":null})", R"({"a":1})",
                R"({"b\"":2,"b\"":null})", R"({"b\"":2,"c":1})"});
  expect_texts(R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}}})",
               {"{}", R"({"x":1,"xy":2})"}, {R"({"y":1})", R"({"x":null})"});
  expect_texts(R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}},
                   "properties": {"xa": {"maximum": 5}, "b": {"const": 9}},
                   "additionalProperties": {"const": null}})",
               {R"({"xa":5,"b":9,"x":7,"y":null})"},
               {R"({"xa":6})", R"({"xa":1.5})", R"({"xb":null})", R"({"y":1})"});
  expect_texts(R"({"type": "object", "propertyNames": {"enum": ["a", "b"]},
                   "properties": {"c": {"const": 1}}, "additionalProperties": {"const": 1}})",
               {"{}", R"({"a":1,"b":1})"}, {R"({"c":1})", R"({"d":1})"});
  expect_texts(R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 2},
                   "required": ["q"]})",
               {R"({"q":1})", R"({"q":[],"ab":{}})"},
               {"{}", R"({"q":1,"abc":1})", R"({"q":1,"A":1})"});
  expect_texts(R"({"type": "object", "propertyNames": false})", {"{}"}, {R"({"a":1})"});
  expect_texts(R"({"type": "object", "additionalProperties": {"const": 1}, "maxProperties": 2,
                   "minProperties": 1, "properties": {"a": {"const": 2}}})",
               {R"({"a":2})", R"({"b":1})", R"({"a":2,"b":1})", R"({"b":1,"c":1})"},
               {"{}", R"({"a":2,"b":1,"c":1})", R"({"a":1})"});
  expect_texts(R"({"type": "object", "required": ["k"], "additionalProperties": {"const": 1}})",
               {R"({"k":1})", R"({"k":1,"l":1})"}, {"{}", R"({"l":1})", R"({"k":1,"k":1})"});
}

TEST(JsonSchema, ValuesOfAnyKind) {
  for (const char* schema : {"{}", R"({"title": "anything"})", R"({"allOf": [true]})"}) {
    expect_texts(schema,
                 {"null", "[]", "{}", "-1.5e3", R"("a\u00e9")", R"([[[1]],{"a":{"b":true}}])"},
                 {"", "[1,]", "nul", "01", "[[[[1]]]]"});
  }
  expect_texts(R"({"type": "array"})", {"[]", R"([1, "a", [[null]]])"}, {"{}", "[1 2]"});
  expect_texts(R"({"type": "array", "prefixItems": [{"const": 1}]})", {"[]", "[1]"}, {"[1,2]"});
  expect_texts(R"({"properties": {"a": true}, "required": ["a"]})", {R"({"a":{}})"}, {"{}", "1"});
  expect_texts(R"({"properties": {"a": false}})", {"{}"}, {R"({"a":1})"});
}

TEST(JsonSchema, SchemasOfOneValue) {
  expect_texts(R"({"$defs": {"a": {"type": "object", "properties": {"x": {"type": "integer"}},
                   "required": ["x"]}}, "allOf": [{"$ref": "#/$defs/a"}], "description": "as pydantic"})",
               {R"({"x":1})"}, {"{}", R"({"y":1})"});
  expect_texts(R"({"$defs": {"a": {"$anchor": "base", "type": "object", "required": ["x"],
                   "properties": {"x": {"type": "integer"}}}}, "$ref": "#base",
                   "properties": {"y": {"type": "null"}, "x": {"maximum": 3}}, "required": ["y"],
                   "unevaluatedProperties": false})",
               {R"({"x":3,"y":null})"},
               {R"({"x":4,"y":null})", R"({"x":1})", R"({"x":1,"y":null,"z":1})"});
  // The first schema forbids the member of the second one.
  expect_texts(R"({"allOf": [{"type": "object", "properties": {"a": {"const": 1}},
                   "additionalProperties": false}, {"properties": {"b": {"const": 2}}}]})",
               {"{}", R"({"a":1})"}, {R"({"b":2})"});
  expect_texts(R"({"type": "integer", "allOf": [{"minimum": 2}, {"minimum": 3, "maximum": 9}],
                   "maximum": 4.5})",
               {"3", "4"}, {"2", "5"});
  expect_texts(R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}},
                   "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
               {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}, {"{}"});
  expect_texts(R"({"type": ["integer", "string"], "enum": [1, "a", null, 7], "maximum": 5})",
               {"1", R"("a")"}, {"7", "null"});
  expect_texts(R"({"enum": ["a", "bc", 5], "maxLength": 1})", {R"("a")"}, {R"("bc")"});
  expect_texts(R"({"allOf": [{"enum": [{"a": 1, "b": 2}, 3]}, {"const": {"b": 2, "a": 1}}]})",
               {R"({"a":1,"b":2})"}, {"3", R"({"a":1})"});
  expect_texts(R"({"enum": [{"a": 1, "b": 2}, 3], "const": {"b": 2, "a": 1}})",
               {R"({"a":1,"b":2})"}, {"3"});
  expect_texts(R"({"allOf": [{"enum": [1, 2, "3"]}, {"enum": [2, "3", 4]}, {"type": "string"}]})",
               {R"("3")"}, {"2", "1"});
  expect_texts(R"({"type": "array", "allOf": [{"prefixItems": [{"type": "integer"}]},
                   {"items": {"minimum": 3, "type": "number"}}], "maxItems": 2})",
               {"[]", "[3]", "[3,3.5]"}, {"[2]", "[3.5]"});
  expect_texts(R"({"type": "object", "unevaluatedProperties": false})", {"{}"}, {R"({"a":1})"});
  expect_texts(
      R"({"type": "object", "properties": {"a": {"const": 1}}, "unevaluatedProperties": false,
                   "anyOf": [{"properties": {"b": {"const": 2}}, "required": ["b"]}, {"maxProperties": 0}]})",
      {R"({"a":1,"b":2})", "{}"}, {R"({"a":1})", R"({"b":2,"c":1})"});
}

TEST(JsonSchema, OneOfIsKeptApart) {
  expect_texts(R"({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}, {"type": "null"}],
    "discriminator": {"propertyName": "kind"}, "$defs": {
    "cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
            "required": ["kind"]},
    "dog": {"type": "object", "properties": {"kind": {"enum": ["dog", "wolf"]}}}}})",
               {R"({"kind":"cat","lives":9})", R"({"kind":"wolf"})", "null"},
               {R"({"kind":"dog","lives":9})", "{}", R"({"lives":9})"});
  expect_texts(R"({"type": "object", "oneOf": [{"properties": {"k": {"const": 1}}},
                   {"properties": {"k": {"const": 2}}}]})",
               {R"({"k":1})", R"({"k":2})"}, {"{}", "null"});
  expect_texts(R"({"oneOf": [{"const": 1}, {"enum": ["a", 2]}, {"type": "array", "items": true}]})",
               {"1", "2", R"("a")", "[{}]"}, {"3"});
}

TEST(JsonSchema, PatternsFormatsAndLengths) {
  const auto all = [](const char* schema, const std::vector<std::string>& yes,
                      const std::vector<std::string>& no) {
    const ByteAutomaton automaton(pattern_of_schema(schema));
    for (const std::string& text : yes)
      EXPECT_TRUE(automaton.matches(Json(text).dump())) << schema << " " << text;
    for (const std::string& text : no)
      EXPECT_FALSE(automaton.matches(Json(text).dump())) << schema << " " << text;
  };
  all(R"({"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"})", {"AB1", "XY007"}, {"A1", "ABc"});
  all(R"({"type": "string", "pattern": "b+"})", {"b", "abba", "\"b\n"}, {"", "aca"});
  all(R"({"type": "string", "pattern": "^a|b$"})", {"ax", "xb", "ab"}, {"xa", "bx"});
  all(R"({"type": "string", "pattern": "^.\\S$"})", {"ab", "\"b"}, {"a\xC2\xA0", "\nb", "abc"});
  all(R"({"type": "string", "pattern": "^\"\\\\\\t$"})", {"\"\\\t"}, {"\"\\t"});
  all(R"({"type": "string", "pattern": "^a*b*$", "minLength": 2, "maxLength": 3})",
      {"aa", "abb", "bbb"}, {"a", "aabb", "ba"});
  all(R"({"type": "string", "format": "date"})", {"2024-02-29", "2000-02-29", "1999-12-31"},
      {"2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "24-01-01"});
  all(R"({"type": "string", "format": "time"})", {"00:00:00Z", "23:59:59.5+01:30"},
      {"24:00:00Z", "12:60:00Z", "12:00:00"});
  all(R"({"type": "string", "format": "date-time"})", {"2024-02-29T12:00:00Z"}, {"2024-02-29"});
  all(R"({"type": "string", "format": "email"})", {"a.b@c-d.org"}, {"a@b", "@b.org", "a b@c.org"});
  all(R"({"type": "string", "format": "ipv4"})", {"0.0.0.0", "255.249.99.1"},
      {"256.0.0.1", "1.1.1"});
  all(R"({"type": "string", "format": "uuid"})", {"01234567-89ab-cdef-0123-456789abcdef"},
      {"01234567"});
  all(R"({"type": "string", "format": "ipv4", "maxLength": 7})", {"1.2.3.4"}, {"11.2.3.4"});
}

TEST(JsonSchema, WritesOutSchemasThatContainThemselves) {
  const ByteAutomaton lists(pattern_of_schema(
      R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}})"));
  EXPECT_TRUE(lists.matches("[]"));
  EXPECT_TRUE(lists.matches("[[], [[], [[]]]]"));
  EXPECT_FALSE(lists.matches("[[[[[]]]]]")) << "five levels";
  const ByteAutomaton chain(pattern_of_schema(R"({"type": "object", "required": ["v", "next"],
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}})"));
  EXPECT_TRUE(chain.matches(R"({"v": 1, "next": null})"));
  EXPECT_TRUE(chain.matches(R"({"v":1,"next":{"v": 2, "next": {"v": 3, "next": null}}})"));
  EXPECT_FALSE(chain.matches(R"({"v": 1, "next": {"v": 2}})"));
}

TEST(JsonSchema, RefusesWhatAPatternCannotKeep) {
  const std::pair<const char*, const char*> rows[] = {
      {R"x({"type": "string", "pattern": "a(?=b)"})x", "look-around"},
      {R"({"type": "string", "pattern": 3})", "pattern is not a text"},
      {R"({"type": "string", "format": "hostname"})", "format \"hostname\" is not supported"},
      {R"({"type": "string", "contentEncoding": "base64"})", "json_schema: keyword contentEnc"},
      {R"({"type": "number", "minimum": 1, "exclusiveMaximum": 1})", "no number is in the range"},
      {R"({"type": "number", "minimum": 0.123456789, "maximum": 123456789})",
       "its bounds have more than 15 digits together"},
      {R"({"type": "number", "maximum": 1e20})", "maximum is not below 10^14"},
      {R"({"type": "number", "minimum": 1e-20})", "minimum 1e-20 has more than 15 digits"},
      {R"({"type": "number", "multipleOf": 0.3})", "multipleOf 0.3 is neither a whole number"},
      {R"({"type": "number", "multipleOf": 1.5})", "multipleOf 1.5 is neither a whole number"},
      {R"({"type": "integer", "multipleOf": 0})", "multipleOf 0 is neither a whole number from 1"},
      {R"({"type": "integer", "multipleOf": 997})", "of numbers with 18 digits needs more than"},
      {R"({"type": "integer", "minimum": 8, "maximum": 13, "multipleOf": 7})",
       "no multiple of 7 is in the range"},
      {R"({"type": "integer", "exclusiveMinimum": true})", "exclusiveMinimum is not a number"},
      {R"({"type": "integer", "minimum": 5, "maximum": 4})", "no integer is in the range"},
      {R"({"type": "integer", "minimum": 4.1, "maximum": 4.9})", "no integer is in the range"},
      {R"({"type": "integer", "minimum": 18446744073709551615})", "no integer is in the range"},
      {R"({"type": ["null", "integer"], "minLength": 1})", "keyword minLength"},
      {R"({"type": "object", "properties": {}, "minProperties": 1})",
       "minProperties is above the number"},
      {R"({"type": "array", "prefixItems": [{"type": "null"}], "items": false, "minItems": 2})",
       "minItems is above the number"},
      {R"({"type": "array", "items": {"type": "null"}, "uniqueItems": true})",
       "keyword uniqueItems"},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 2})",
       "minItems is above maxItems"},
      {R"({"type": "object", "properties": {"a": {"type": "strin"}}})",
       "json_schema.a: there is no type \"strin\""},
      {R"({"type": "object", "properties": {}, "required": ["a"]})", "required names \"a\""},
      {R"({"type": 5})", "type is not a name"},
      {R"({"allOf": 5})", "allOf is not a list"},
      {R"({"not": {"type": "null"}})", "keyword not is not supported"},
      {R"({"if": {"type": "null"}, "then": {"type": "null"}})", "keyword if"},
      {R"({"dependentRequired": {"a": ["b"]}})", "keyword dependentRequired"},
      {R"({"type": "array", "contains": {"type": "null"}})", "keyword contains"},
      {R"({"allOf": [{"type": "string"}, {"not": {"const": "a"}}]})", "keyword not"},
      {R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", "no value is of this schema"},
      {R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", "keyword pattern is \"a\" and \"b\""},
      {R"({"allOf": [{"properties": {"a": true}}, {"patternProperties": {"a": true}}]})",
       "keyword patternProperties is in one of two schemas"},
      {R"({"type": "object", "patternProperties": {"a": true, "b": true}})",
       "patternProperties is not an object of one pattern"},
      {R"({"type": "object", "minProperties": 2})", "minProperties 2 counts several members"},
      {R"({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]})", "may have the same values"},
      {R"({"oneOf": [{"minLength": 1}, {"type": "object", "properties": {"a": {"const": 1}}}]})",
       "may have the same values"},
      {R"({"$ref": "#name"})", "there is no #name"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "may have the same values"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})",
       "no value has at most 4 levels"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["a"],
           "properties": {"a": {"$ref": "#/$defs/a"}}}}})",
       "no value has at most 4 levels"},
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
