// A request under regex or choices writes a text that matches, whatever its policy decides first.

#include "base/error.h"
#include "decode/request/policy.h"
#include "generate/constraints/constraint_kinds.h"
#include "generate/constraints/text_constraint.h"
#include "texts.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <set>

namespace dllm::generate {
namespace {

using text::TokenAutomaton;
using text::TokenBytes;
using text::TokenTrie;

// Tokens of one to three letters, so that a text has several sequences of tokens.
std::shared_ptr<text::Tokenizer> short_words() {
  const Json file = Json::parse(R"({
    "model": {"type": "BPE", "merges": [["a", "b"], ["b", "c"], ["ab", "c"]],
              "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "<end>": 6, "<mask>": 7}},
    "added_tokens": [{"id": 6, "content": "<end>", "special": true},
                     {"id": 7, "content": "<mask>", "special": true}],
    "decoder": {"type": "Fuse"}})");
  MemorySource source;
  const std::string json = file.dump();
  source.add("tokenizer.json", json.data(), json.size(), true);
  Options options(text::tokenizer_schema());
  options.set_json({{"eos", "<end>"}, {"mask", "<mask>"}});
  return text::Tokenizer::load(source, options);
}

constexpr int32_t kLast = 6; // the end token

// The tokens that may be drawn inside a text.
std::shared_ptr<const TokenTrie> drawn_words() {
  const std::vector<uint8_t> banned = {0, 0, 0, 0, 0, 0, 1, 1};
  return std::make_shared<const TokenTrie>(std::make_shared<const TokenBytes>(*short_words()),
                                           banned);
}
const std::vector<std::string> kWords = {"a", "b", "c", "ab", "bc", "abc"};

// Returns whether the tokens are a text that matches, with any tokens after an end token.
bool is_match(const std::regex& regex, const std::vector<int32_t>& ids, bool may_end) {
  std::string text;
  for (const int32_t id : ids) {
    if (id == kLast) return may_end && std::regex_match(text, regex);
    text += kWords[static_cast<size_t>(id)];
  }
  return std::regex_match(text, regex);
}

// Tries all tokens at the open positions (-1).
bool can_match(const std::regex& regex, std::vector<int32_t> ids, bool may_end) {
  const auto open = std::ranges::find(ids, -1);
  if (open == ids.end()) return is_match(regex, ids, may_end);
  for (int32_t id = 0; id <= (may_end ? kLast : kLast - 1); ++id) {
    *open = id;
    if (can_match(regex, ids, may_end)) return true;
  }
  return false;
}

decode::Request request_of(const std::vector<int32_t>& ids) {
  decode::Request request;
  for (const int32_t id : ids) {
    request.ids.push_back(id < 0 ? 7 : id);
    request.states.push_back(id < 0 ? decode::State::masked : decode::State::final);
    request.confidence.push_back(1);
  }
  return request;
}

// The sets of a canvas that changes step by step are those of a fresh one, and tokens are allowed
// where a completion exists.
TEST(TextConstraint, AllowsWhatCanBeCompleted) {
  const auto tokens = drawn_words();
  std::mt19937 random(3);
  int64_t allowed = 0, refused = 0;
  for (const char* pattern :
       {"(?:ab)*c?", "a{2,3}b*", "(?:abc|bca|c)+", "[ab]*c[ab]*", "", "abcabc"}) {
    const auto automaton = std::make_shared<const TokenAutomaton>(pattern, tokens);
    const std::regex regex(pattern);
    for (const bool may_end : {true, false}) {
      const std::vector<int32_t> ends =
          may_end ? std::vector<int32_t>{kLast} : std::vector<int32_t>();
      const TextConstraint kept(automaton, 0, ends, may_end);
      for (int trial = 0; trial < 60; ++trial) {
        std::vector<int32_t> canvas(4, -1);
        for (int32_t& id : canvas) {
          if (random() % 3 == 0) id = static_cast<int32_t>(random() % (may_end ? 7 : 6));
        }
        ASSERT_EQ(kept.can_match(canvas), can_match(regex, canvas, may_end)) << pattern;
        const auto position = static_cast<int64_t>(random() % 4);
        const auto none = std::make_shared<const std::vector<uint8_t>>(8);
        const std::vector<uint8_t> banned = *kept.ban(request_of(canvas), position, none);
        for (int32_t id = 0; id < (may_end ? 7 : 6); ++id) {
          std::vector<int32_t> tried = canvas;
          tried[static_cast<size_t>(position)] = id;
          const bool wanted = can_match(regex, tried, may_end);
          ASSERT_EQ(kept.allows(request_of(canvas), position, id), wanted)
              << pattern << " token " << id << " at " << position;
          ASSERT_EQ(banned[static_cast<size_t>(id)] == 0, wanted) << pattern << " token " << id;
          (wanted ? allowed : refused) += 1;
        }
        // After an end any token may stand, the mask token too.
        EXPECT_TRUE(may_end || banned[7] != 0) << "the mask token";
      }
    }
  }
  EXPECT_GT(allowed, 200);
  EXPECT_GT(refused, 200);
}

TEST(TextConstraint, CountsPositions) {
  const auto tokens = drawn_words();
  const auto fewest = [&](const char* pattern) {
    return TextConstraint(std::make_shared<const TokenAutomaton>(pattern, tokens), 0, {kLast}, true)
        .fewest_positions(100);
  };
  EXPECT_EQ(fewest("a*"), 0);
  EXPECT_EQ(fewest("abcab"), 2);
  EXPECT_EQ(fewest("c{90}"), 90);
  EXPECT_EQ(fewest("c{101}"), -1);
  EXPECT_EQ(fewest("x"), -1) << "no token has this letter";
}

TEST(TextConstraint, BansAreTheSameForAnyNumberOfThreads) {
  const auto tokens = drawn_words();
  const auto none = std::make_shared<const std::vector<uint8_t>>(8);
  std::mt19937 random(9);
  for (const char* pattern : {"[a-c]{6,40}", "(?:ab)*c?[abc]{3,9}", "(?:abc|bca|c)+"}) {
    const auto automaton = std::make_shared<const TokenAutomaton>(pattern, tokens);
    for (int threads : {2, 3, 5}) {
      ThreadPool pool(threads);
      const TextConstraint shared(automaton, 0, {kLast}, true), alone(automaton, 0, {kLast}, true);
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<int32_t> canvas(16, -1);
        for (int32_t& id : canvas) {
          if (random() % 4 == 0) id = static_cast<int32_t>(random() % 7);
        }
        std::vector<int64_t> positions;
        for (int64_t i = 0; i < 16; ++i) {
          if (canvas[static_cast<size_t>(i)] < 0) positions.push_back(i);
        }
        const auto together = shared.bans(request_of(canvas), positions, none, &pool);
        for (size_t i = 0; i < positions.size(); ++i) {
          const decode::BanRow own = alone.ban(request_of(canvas), positions[i], none);
          ASSERT_EQ(*together[i], *own) << pattern << " at " << positions[i];
        }
      }
    }
  }
}

TEST(TextConstraint, ACancelledStepLeavesTheConstraintUsable) {
  const auto automaton = std::make_shared<const TokenAutomaton>("[a-c]{6,40}", drawn_words());
  const TextConstraint constraint(automaton, 0, {kLast}, true);
  const decode::Request canvas = request_of(std::vector<int32_t>(12, -1));
  const auto none = std::make_shared<const std::vector<uint8_t>>(8);
  const std::vector<int64_t> positions = {1, 7};
  Task task;
  task.cancel();
  EXPECT_THROW(constraint.bans(canvas, positions, none, {nullptr, &task}), Error);
  const auto made = constraint.bans(canvas, positions, none, {});
  EXPECT_EQ(*made[0], *constraint.ban(canvas, 1, none));
  EXPECT_EQ(made[0]->size(), 8U);
  EXPECT_EQ(made[1]->size(), 8U);
}

// A pattern that counts has other sets at each position. Where they allow the same tokens, the
// positions share a row.
TEST(TextConstraint, PositionsThatAllowTheSameShareARow) {
  const auto automaton = std::make_shared<const TokenAutomaton>("[a-c]{6,40}", drawn_words());
  const TextConstraint constraint(automaton, 0, {kLast}, true);
  const decode::Request canvas = request_of(std::vector<int32_t>(12, -1));
  const auto none = std::make_shared<const std::vector<uint8_t>>(8);
  const decode::BanRow first = constraint.ban(canvas, 0, none);
  EXPECT_EQ(constraint.ban(canvas, 1, none), first);
  const decode::BanRow later = constraint.ban(canvas, 7, none);
  EXPECT_NE(*later, *first) << "the text may have ended";
  EXPECT_EQ(constraint.ban(canvas, 9, none), later);
  EXPECT_EQ(constraint.ban(canvas, 0, none), first);
}

// ---- with a model ----

Generator generator_of(const std::string& policy) {
  const bool inserts = policy == "editflow";
  return Generator(small_model(Json::object(), inserts ? "editflow-llama" : "a2d-llama"), letters(),
                   settings());
}

Json values_for(const std::string& policy, const Json& more) {
  Json values = {{"policy", policy}, {"prompt", "say "}, {"length", 12}};
  const Schema& schema = request_schema(policy);
  const Json usual = {{"block_length", 4}, {"steps", 6}};
  for (const auto& [key, value] : usual.items()) {
    if (std::ranges::find(schema.specs(), key, &OptionSpec::key) != schema.specs().end())
      values[key] = value;
  }
  values.update(more);
  return values;
}

class EveryPolicyUnderRegex : public ::testing::TestWithParam<std::string> {};

bool is_refused(const std::string& policy) {
  return !decode::writes_in_place(policy);
}

TEST_P(EveryPolicyUnderRegex, WritesWhatMatches) {
  const std::string& policy = GetParam();
  if (policy == "diffusion_gemma") GTEST_SKIP() << "needs a model of canvases";
  Generator generator = generator_of(policy);
  const std::string pattern = "(?:[a-e]{2} )+(?:yes|no)";
  if (is_refused(policy)) {
    test::expect_error(Code::unimplemented, policy, [&] {
      generator.add(request(values_for(policy, {{"regex", pattern}})));
    });
    EXPECT_EQ(generator.open_count(), 0);
    return;
  }
  std::set<std::string> texts;
  for (const double temperature : {0.0, 1.0, 5.0}) {
    for (const int64_t seed : {1, 2, 3}) {
      const int64_t number = generator.add(request(
          values_for(policy, {{"regex", pattern}, {"temperature", temperature}, {"seed", seed}})));
      generator.run();
      const std::string text = generator.text(number, TextPart::completion);
      EXPECT_TRUE(std::regex_match(text, std::regex(pattern))) << policy << ": " << text;
      texts.insert(text);
      generator.remove(number);
    }
  }
  EXPECT_GT(texts.size(), 2u) << policy;
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicyUnderRegex,
                         ::testing::ValuesIn(decode::policy_names()),
                         [](const auto& test) { return test.param; });

TEST(Constraint, ChoicesAndInfill) {
  Generator generator = generator_of("low_confidence");
  const auto text_of = [&](const Json& values) {
    const int64_t number = generator.add(request(values));
    generator.run();
    const std::string text = generator.text(number, TextPart::completion);
    generator.remove(number);
    return text;
  };
  const std::set<std::string> colours = {"red", "green", "blue"};
  EXPECT_TRUE(colours.contains(text_of({{"prompt", "i like "},
                                        {"length", 8},
                                        {"temperature", 3.0},
                                        {"choices", {"red", "green", "blue"}}})));
  const std::string filled = text_of({{"infill", "it is <mask:3> and <mask:2> here"},
                                      {"temperature", 3.0},
                                      {"regex", "it is [xyz]+ and [aeiou]+ here"}});
  EXPECT_TRUE(std::regex_match(filled, std::regex("it is [xyz]{3} and [aeiou]{2} here"))) << filled;
}

// The canvas of a next-token model is open by a token like others, here the letter a, which a step
// may draw.
TEST(Constraint, ModelWithoutAMaskToken) {
  Generator generator(small_model(Json::object(), "llama", -1), letters(), settings());
  for (const int64_t seed : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) {
    const int64_t number = generator.add(request({{"policy", "autoregressive"},
                                                  {"prompt", "say "},
                                                  {"length", 6},
                                                  {"regex", "(?:fb|dc|e)"},
                                                  {"temperature", 5.0},
                                                  {"seed", seed}}));
    generator.run();
    const std::string text = generator.text(number, TextPart::completion);
    EXPECT_TRUE(std::regex_match(text, std::regex("fb|dc|e"))) << text;
    generator.remove(number);
  }
}

// The steps of policy spd may end before its positions are decided. A text that has to match gets
// tokens there.
TEST(Constraint, PositionsThatStepsLeaveOpenAreDecided) {
  Generator generator = generator_of("spd");
  const Json values = {{"policy", "spd"}, {"prompt", "say "},       {"length", 12},
                       {"steps", 1},      {"confidence_stop", 2.0}, {"threshold", 1.0}};
  const int64_t free = generator.add(request(values));
  generator.run();
  EXPECT_EQ(generator.describe(free).at("finish"), "incomplete");
  EXPECT_GT(generator.describe(free).at("open"), 0);
  for (const int64_t steps : {1, 2, 32}) {
    Json all = values;
    all.update({{"regex", "[a-z ]+"}, {"steps", steps}});
    const int64_t number = generator.add(request(all));
    generator.run();
    const Json about = generator.describe(number);
    EXPECT_EQ(about.at("finish"), "full") << steps;
    EXPECT_EQ(about.at("open"), 0) << steps;
    const std::string text = generator.text(number, TextPart::completion);
    EXPECT_TRUE(std::regex_match(text, std::regex("[a-z ]+"))) << text;
  }
}

// The language of brackets, with a for ( and b for ). No pattern has it.
class Brackets final : public AnswerConstraint {
public:
  explicit Brackets(const ConstraintPlace& place)
      : begin_(place.begin), end_(place.ends.front()), may_end_(place.may_end) {}

  bool allows(const decode::Request& request, int64_t position, int32_t token) const override {
    std::vector<int32_t> given(request.ids.size());
    for (size_t i = 0; i < given.size(); ++i)
      given[i] = request.states[i] == decode::State::masked ? -1 : request.ids[i];
    given[static_cast<size_t>(position)] = token;
    return can_match(given);
  }

  bool can_match(const std::vector<int32_t>& given) const override {
    // Entry d: the positions so far may have d open brackets. The last entry: the text has ended.
    std::vector<uint8_t> now(given.size() + 2);
    const size_t over = now.size() - 1;
    now[0] = 1;
    for (size_t i = static_cast<size_t>(begin_); i < given.size(); ++i) {
      std::vector<uint8_t> next(now.size());
      const bool is_open = given[i] < 0;
      for (size_t depth = 0; depth < over; ++depth) {
        if (now[depth] == 0) continue;
        if ((is_open || given[i] == 0) && depth + 1 < over) next[depth + 1] = 1;
        if ((is_open || given[i] == 1) && depth > 0) next[depth - 1] = 1;
      }
      if (((is_open && may_end_) || given[i] == end_) && (now[0] != 0 || now[over] != 0))
        next[over] = 1;
      now = next;
    }
    return now[0] != 0 || now[over] != 0;
  }
  std::string what() const override { return "brackets"; }

private:
  int64_t begin_;
  int32_t end_;
  bool may_end_;
};

bool is_balanced(const std::string& text) {
  int depth = 0;
  for (const char letter : text) {
    if (letter != 'a' && letter != 'b') return false;
    depth += letter == 'a' ? 1 : -1;
    if (depth < 0) return false;
  }
  return depth == 0;
}

TEST(Constraint, APatternIsCompiledOnce) {
  Automata automata(letters());
  const std::vector<uint8_t> banned(32);
  std::vector<uint8_t> fewer = banned;
  fewer[1] = 1;
  const auto get = [&](const std::string& pattern, const std::vector<uint8_t>& own,
                       text::Notation notation = text::Notation::expression) {
    return automata.get(pattern, notation, own, nullptr);
  };
  const auto first = get("[ab]*", banned);
  EXPECT_EQ(get("[ab]*", banned), first);
  EXPECT_NE(get("[ab]*", fewer), first) << "other tokens may be drawn";
  EXPECT_EQ(get("[ab]*", banned), first);
  const auto grammar = get("root ::= \"a\"", banned, text::Notation::grammar);
  EXPECT_EQ(get("root ::= \"a\"", banned, text::Notation::grammar), grammar);
  const std::weak_ptr<const TokenAutomaton> unused = get("b", banned);
  for (int i = 1; i < 40; ++i) {
    get("a{" + std::to_string(i) + "}", banned);
    ASSERT_EQ(get("[ab]*", banned), first) << "a pattern in use stays, after " << i << " others";
  }
  EXPECT_TRUE(unused.expired()) << "16 are kept";
}

TEST(Constraint, AKindWithoutAPatternHasAConstraintOfItsOwn) {
  const ConstraintKind kind = {
      option_str("brackets", "", "The answer has brackets."), nullptr,
      [](const Options&, const ConstraintPlace& place) -> std::shared_ptr<const AnswerConstraint> {
        return std::make_shared<const Brackets>(place);
      }};
  Automata automata(letters());
  const std::vector<uint8_t> banned(32);
  for (const char* policy : {"low_confidence", "random", "threshold", "autoregressive"}) {
    Generator generator(small_model(), letters(), settings({{"policy", policy}}));
    for (int seed = 0; seed < 4; ++seed) {
      const Options options = request({{"prompt", "the old"},
                                       {"length", 11},
                                       {"temperature", 2.0},
                                       {"seed", seed},
                                       {"suppress_mask", true}});
      TextRequest read = *generator.reader()->read(options, nullptr);
      read.constraint = make_constraint(
          kind, options, {automata, banned, read.prompt.begin, read.ends, true, nullptr});
      const int64_t number = generator.add(std::make_shared<const TextRequest>(read));
      generator.run();
      const Json about = generator.describe(number);
      EXPECT_NE(about.at("finish"), "failed") << policy << about.dump();
      EXPECT_TRUE(is_balanced(about.value("completion", "x"))) << policy << " " << about.dump();
      generator.remove(number);
    }
  }
}

TEST(Constraint, Errors) {
  Generator generator = generator_of("low_confidence");
  const auto refused = [&](Code code, const char* part, const Json& values) {
    test::expect_error(code, part, [&] { generator.add(request(values)); });
    EXPECT_EQ(generator.open_count(), 0);
  };
  refused(Code::invalid_argument, "byte 3", {{"regex", "a(b"}});
  refused(Code::invalid_argument, "no text of 3 tokens", {{"regex", "abcd"}, {"length", 3}});
  refused(Code::invalid_argument, "no text of the open positions", {{"regex", "[0-9]+"}});
  refused(Code::invalid_argument, "no text of the open positions",
          {{"infill", "a <mask:2> b"}, {"regex", "a c b"}});
  refused(Code::invalid_argument, "regex and choices", {{"regex", "a"}, {"choices", {"a"}}});
  refused(Code::invalid_argument, "a mask token that is drawn",
          {{"regex", "a"}, {"suppress_mask", false}});
  refused(Code::invalid_argument, "option stop cuts", {{"regex", "a"}, {"stop", {"b"}}});
  try {
    generator.add(request({{"regex", "abcd"}, {"length", 3}}));
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(), "set length to 4 or more");
  }
}

} // namespace
} // namespace dllm::generate
