// Random patterns and schemas under every policy: no request fails, and every text matches.
// Policies that revise what they wrote are among them.

#include "base/error.h"
#include "decode/request/policy.h"
#include "generate/constraints/constraint_kinds.h"
#include "texts.h"
#include "unit/generate/random_schemas.h"
#include "unit/test_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <regex>

namespace dllm::generate {
namespace {

using dllm::Json;

// A tokenizer whose tokens are characters, and parts of JSON of several characters.
std::shared_ptr<text::Tokenizer> json_pieces() {
  std::vector<std::string> pieces;
  for (char c = ' '; c <= '~'; ++c) pieces.emplace_back(1, c);
  for (const char* more : {"\xC3\xA4", "\xE2\x82\xAC", "{\"", "\":", ", \"", "\"}", "\\u", "00",
                           "12", "true", "alse", "null", "ab", "],", "\": ", "}]"})
    pieces.emplace_back(more);
  return tokenizer_of(pieces, {"<end>", "<mask>"});
}

constexpr int64_t kVocabulary = 128; // more ids than the tokenizer has tokens

class RandomRequests {
public:
  explicit RandomRequests(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random_);
  }
  template <class T> T one_of(std::initializer_list<T> values) {
    return values.begin()[below(std::ssize(values))];
  }

  // Returns a pattern that the readers of std::regex and of constraints read alike.
  std::string pattern(int depth) {
    if (depth == 0) return one_of<std::string>({"a", "b", "c", "[ab]", "[b-d]", "ab", "ca", " "});
    switch (below(4)) {
    case 0: return pattern(depth - 1) + pattern(depth - 1);
    case 1: return "(?:" + pattern(depth - 1) + "|" + pattern(depth - 1) + ")";
    case 2:
      return "(?:" + pattern(depth - 1) + ")" +
             one_of<std::string>({"?", "*", "+", "{2}", "{1,3}"});
    default: return pattern(depth - 1);
    }
  }

  // Returns the settings of a request, with the keys that the policy has. Policy spd leaves
  // positions open after fewer steps than its block has positions.
  Json settings(const std::string& policy) {
    const int64_t block = one_of<int64_t>({2, 4, 8, 64});
    const int64_t steps = policy == "spd" ? 64 : one_of<int64_t>({2, 5, 12, 64});
    Json values = {{"policy", policy}, {"seed", below(1000)}};
    values["temperature"] = one_of<double>({0.0, 0.7, 4.0});
    const Json usual = {{"block_length", block},
                        {"steps", steps},
                        {"threshold", one_of<double>({0.05, 0.3, 0.9})},
                        {"editing_threshold", one_of<double>({0.02, 0.2, 1.0})},
                        {"confidence_stop", one_of<double>({0.9, 2.0})},
                        {"revise", one_of<std::string>({"none", "stored", "rescore"})},
                        {"eta", one_of<double>({0.02, 0.5})},
                        {"max_post_steps", 8}};
    const Schema& schema = request_schema(policy);
    for (const auto& [key, value] : usual.items()) {
      if (std::ranges::find(schema.specs(), key, &OptionSpec::key) != schema.specs().end())
        values[key] = value;
    }
    return values;
  }

private:
  std::mt19937 random_;
};

// Adds a request, and returns its text after all steps. Returns nothing if no text of the length
// matches, which the generator says when the request is added.
std::optional<std::string> text_of(Generator& generator, const Json& values, TextPart part) {
  int64_t number = 0;
  try {
    number = generator.add(request(values));
  } catch (const Error& error) {
    const bool is_known = error.text().find("no text of") != std::string::npos ||
                          error.text().find("matches no text") != std::string::npos ||
                          error.text().find("needs more than") != std::string::npos;
    EXPECT_TRUE(is_known) << error.text() << "\n" << values;
    return std::nullopt;
  }
  std::string text;
  try {
    generator.run();
    const Json described = generator.describe(number);
    EXPECT_NE(described.at("finish"), "failed") << described << "\n" << values;
    text = generator.text(number, part);
  } catch (const Error& error) {
    ADD_FAILURE() << error.text() << "\n" << values;
  }
  generator.remove(number);
  return text;
}

// Returns whether the policy decodes under a constraint, and its model exists here.
bool decodes_patterns(const std::string& policy) {
  return decode::writes_in_place(policy);
}

class EveryPolicyInAnyOrder : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPolicyInAnyOrder, MatchesRandomPatterns) {
  const std::string& policy = GetParam();
  if (!decodes_patterns(policy)) GTEST_SKIP() << "this policy refuses constraints";
  Generator generator(small_model(), letters(), settings());
  RandomRequests random(17);
  int written = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const std::string pattern = random.pattern(4);
    Json values = random.settings(policy);
    values.update({{"prompt", "say "}, {"length", 4 + random.below(12)}, {"regex", pattern}});
    const auto text = text_of(generator, values, TextPart::completion);
    if (!text) continue;
    EXPECT_TRUE(std::regex_match(*text, std::regex(pattern))) << values << "\n" << *text;
    ++written;
  }
  EXPECT_GT(written, 15);
}

TEST_P(EveryPolicyInAnyOrder, MatchesRandomSchemas) {
  const std::string& policy = GetParam();
  if (!decodes_patterns(policy)) GTEST_SKIP() << "this policy refuses constraints";
  const auto tokenizer = json_pieces();
  const auto mask = tokenizer->special().mask;
  Generator generator(small_model(Json::object(), "a2d-llama", mask, kVocabulary), tokenizer,
                      settings());
  RandomRequests random(23);
  int written = 0;
  for (uint32_t seed = 0; seed < 14; ++seed) {
    random_schemas::RandomSchemas schemas(seed);
    const random_schemas::Json schema = schemas.schema(2);
    Json values = random.settings(policy);
    values.update({{"prompt", "json "}, {"length", 12 + random.below(20)}});
    values["json_schema"] = schema.dump();
    const auto text = text_of(generator, values, TextPart::completion);
    if (!text) continue;
    const auto read = random_schemas::Json::parse(*text, nullptr, false);
    ASSERT_FALSE(read.is_discarded()) << schema << "\n" << *text;
    EXPECT_TRUE(random_schemas::is_valid(schema, read, schema)) << schema << "\n" << *text;
    ++written;
  }
  EXPECT_GT(written, 6);
}

// Holes between given keys have fixed numbers of tokens.
TEST_P(EveryPolicyInAnyOrder, FillsHolesBetweenGivenKeys) {
  const std::string& policy = GetParam();
  if (!decodes_patterns(policy)) GTEST_SKIP() << "this policy refuses constraints";
  const auto tokenizer = json_pieces();
  const auto mask = tokenizer->special().mask;
  Generator generator(small_model(Json::object(), "a2d-llama", mask, kVocabulary), tokenizer,
                      settings());
  const Json schema = {{"type", "object"},
                       {"properties",
                        {{"a", {{"type", "string"}, {"maxLength", 4}}},
                         {"b", {{"type", "integer"}, {"minimum", -20}, {"maximum", 70}}},
                         {"c", {{"enum", {"red", "green", nullptr, 12}}}},
                         {"d", {{"type", "array"}, {"items", {{"type", "boolean"}}}}}}},
                       {"required", {"a", "b", "c", "d"}}};
  RandomRequests random(29);
  int written = 0;
  for (int trial = 0; trial < 12; ++trial) {
    Json values = random.settings(policy);
    values["json_schema"] = schema.dump();
    values["infill"] = fmt::format(
        R"({{"a": <mask:{}>, "b":<mask:{}>, "c":<mask:{}>, "d": <mask:{}>}})", 2 + random.below(4),
        1 + random.below(3), 2 + random.below(6), 2 + random.below(10));
    const auto text = text_of(generator, values, TextPart::completion);
    if (!text) continue;
    const Json read = Json::parse(*text, nullptr, false);
    ASSERT_FALSE(read.is_discarded()) << *text;
    EXPECT_TRUE(random_schemas::is_valid(schema, read, schema)) << *text;
    ++written;
  }
  EXPECT_GT(written, 5);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicyInAnyOrder,
                         ::testing::ValuesIn(decode::policy_names()),
                         [](const auto& test) { return test.param; });

// A token that the decoder never draws completes no text.
TEST(AnyOrder, CountsOnTokensThatMayBeDrawnAlone) {
  Generator generator(small_model(), letters(), settings());
  const Json values = {
      {"policy", "low_confidence"}, {"prompt", "say "},   {"length", 3},
      {"regex", "[ab][bc]c|b{3}"},  {"temperature", 3.0}, {"suppress", {"2"}}}; // c
  for (int64_t seed = 0; seed < 8; ++seed) {
    Json own = values;
    own["seed"] = seed;
    EXPECT_EQ(text_of(generator, own, TextPart::completion), "bbb");
  }
  Json none = values;
  none["regex"] = "[ab]c";
  test::expect_error(Code::invalid_argument, "no text of", [&] { generator.add(request(none)); });
}

} // namespace
} // namespace dllm::generate
