#include "base/json.h"

#include "unit/test_files.h"

#include <nlohmann/json.hpp>

#include <chrono>

namespace dllm {
namespace {

using test::expect_error;

TEST(Json, KeepsOrderAndEveryKindOfValue) {
  const std::string text =
      R"({"z":1,"a":[true,null,-2,1.5,"x",{}],"m":{"k":[]},"big":18446744073709551615})";
  const Json value = parse_json(text, "x");
  EXPECT_EQ(value.dump(), text);
  EXPECT_EQ(value.at("a").at(2).get<int64_t>(), -2);
  EXPECT_EQ(parse_json("  7 ", "x").get<int>(), 7);
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\"}", "nul", "1 2", "{\"a\":1}x", "\"\xFF\"", "[\"\x01\"]", "NaN"}) {
    expect_error(Code::data_loss, "config.json is not valid JSON near byte",
                 [&] { parse_json(text, "config.json"); });
  }
  expect_error(Code::data_loss, "too large", [] { parse_json("[1e999]", "x"); });
}

TEST(Json, RefusesRepeatedKeysInSmallAndLargeObjects) {
  expect_error(Code::data_loss, "x holds the key \"a\" twice",
               [] { parse_json(R"({"a":1,"b":2,"a":3})", "x"); });
  std::string large = "{";
  for (int i = 0; i < 100; ++i) large += fmt::format("\"k{}\":{},", i, i);
  EXPECT_EQ(parse_json(large + "\"last\":1}", "x").size(), 101u);
  for (int repeated : {0, 15, 16, 17, 99}) {
    expect_error(Code::data_loss, fmt::format("\"k{}\" twice", repeated),
                 [&] { parse_json(large + fmt::format("\"k{}\":1}}", repeated), "x"); });
  }
}

TEST(Json, LimitsNestingWithoutRecursion) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(64), "x"));
  expect_error(Code::data_loss, "nested deeper than 64", [&] { parse_json(nested(65), "x"); });
  expect_error(Code::data_loss, "nested deeper than 64", [&] { parse_json(nested(1000000), "x"); });
}

TEST(Json, ReadsAVocabularyInLinearTime) {
  std::string text = "{";
  constexpr int kWords = 200000; // a walk over all keys per key would take minutes
  for (int i = 0; i < kWords; ++i) text += fmt::format("{}\"word{}\":{}", i ? "," : "", i, i);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text + "}", "x").size(), static_cast<size_t>(kWords));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

} // namespace
} // namespace dllm
