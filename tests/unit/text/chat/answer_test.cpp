#include "text/answer/answer.h"

#include "../tokenizer/byte_tokenizer.h"
#include "answer_tokenizers.h"
#include "base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace dllm::text {
namespace {

using Ids = std::vector<int32_t>;
using States = std::vector<PositionState>;
constexpr auto kMasked = PositionState::masked;
constexpr auto kProvisional = PositionState::provisional;
constexpr auto kFinal = PositionState::final;
constexpr auto kFixed = PositionState::fixed;

Options answer_options(const Json& json) {
  Options options(answer_schema());
  options.set_json(json);
  return options;
}

Answer answer_of(std::shared_ptr<const Tokenizer> tokenizer, const Json& json) {
  return Answer(std::move(tokenizer), answer_options(json));
}

States states_of(size_t count, size_t decided) {
  States states(count, kMasked);
  std::fill_n(states.begin(), decided, kFinal);
  return states;
}

// Updates with the first `decided` of the ids decided.
AnswerEnd decide(Answer& answer, const Ids& ids, size_t decided) {
  return answer.update(ids, states_of(ids.size(), decided));
}

Ids bytes_of(const std::string& text) { // of make_byte_tokenizer()
  Ids ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

TEST(Answer, ReturnsNothingBeforeTheFirstCanvas) {
  Answer answer = answer_of(make_byte_tokenizer(), {{"begin", 3}});
  EXPECT_EQ(answer.text(), "");
  EXPECT_EQ(answer.next(), "");
  EXPECT_TRUE(answer.cells().empty());
}

// A policy may end with mask tokens in the canvas (editflow). Given ones are what the user wrote.
TEST(Answer, LeavesOutDecidedMaskTokens) {
  constexpr int32_t kMask = 257;
  Answer answer = answer_of(make_byte_tokenizer(), {{"begin", 1}});
  EXPECT_EQ(answer.update({'>', kMask, 'a', kMask}, {kFixed, kFinal, kFinal, kFinal}),
            AnswerEnd::full);
  EXPECT_EQ(answer.text(), "a");
  EXPECT_FALSE(answer.has_text(1));
  answer.update({'>', kMask}, {kFixed, kFinal});
  EXPECT_EQ(answer.text(), "");
  answer.update({'>', kMask, 'a'}, {kFixed, kFixed, kFinal});
  EXPECT_EQ(answer.text(), "<|mask|>a");
}

// A hole that is shorter than its place is filled with end tokens.
TEST(Answer, LeavesOutEndTokensOfHoles) {
  constexpr int32_t kEnd = 256;
  Answer answer = answer_of(make_byte_tokenizer(), {{"begin", -1}});
  answer.update({'a', 'b', kEnd, kEnd, 'c', kEnd},
                {kFixed, kFinal, kFinal, kFinal, kFixed, kFixed});
  EXPECT_EQ(answer.text(), "abc<|endoftext|>");
  EXPECT_EQ(answer.next(), "abc<|endoftext|>");
  EXPECT_FALSE(answer.has_text(2));
  EXPECT_TRUE(answer.has_text(5));
}

TEST(Answer, GrowsByWholeCharacters) {
  Answer answer = answer_of(make_byte_tokenizer(), {{"begin", 1}});
  const Ids ids = bytes_of(">a\u20ac.");
  const std::string shown[] = {"", "a", "a", "a", "a\u20ac", "a\u20ac."};
  const std::string more[] = {"", "a", "", "", "\u20ac", "."};
  for (size_t decided = 1; decided <= ids.size(); ++decided) {
    EXPECT_EQ(decide(answer, ids, decided),
              decided == ids.size() ? AnswerEnd::full : AnswerEnd::open);
    EXPECT_EQ(answer.text(), shown[decided - 1]);
    EXPECT_EQ(answer.next(), more[decided - 1]);
  }
}

TEST(Answer, ShowsHalfACharacterOnceItIsOver) {
  Answer answer = answer_of(make_byte_tokenizer(), Json::object());
  const Ids ids = bytes_of("a\xE2\x82");
  EXPECT_EQ(decide(answer, ids, 2), AnswerEnd::open);
  EXPECT_EQ(answer.next(), "a");
  EXPECT_EQ(decide(answer, ids, 3), AnswerEnd::full);
  EXPECT_EQ(answer.text(), "a\uFFFD");
  EXPECT_EQ(answer.next(), "\uFFFD");
}

TEST(Answer, EndsAtATokenOrText) {
  Answer answer = answer_of(make_byte_tokenizer(),
                            {{"stop", {"256"}}, {"stop_texts", {"###", "END"}}, {"begin", 2}});
  EXPECT_EQ(decide(answer, bytes_of("##a##bEND###"), 7), AnswerEnd::open); // "##" is the prompt's
  EXPECT_EQ(answer.next(), "a##b");
  EXPECT_EQ(decide(answer, bytes_of("##a##bEND###"), 8), AnswerEnd::open);
  EXPECT_EQ(answer.next(), ""); // "E" and "EN" may begin "END"
  EXPECT_EQ(decide(answer, bytes_of("##a##bEND###"), 9), AnswerEnd::stop_text);
  EXPECT_EQ(answer.text(), "a##b");
  EXPECT_EQ(answer.next(), "");
  Ids ids = bytes_of("##xE");
  ids.insert(ids.end(), {256, 'y'});
  Answer other = answer_of(make_byte_tokenizer(), {{"stop", {"256"}}, {"stop_texts", {"END"}}});
  EXPECT_EQ(decide(other, ids, 4), AnswerEnd::open);
  EXPECT_EQ(other.next(), "##x");
  EXPECT_EQ(decide(other, ids, 5), AnswerEnd::end_token);
  EXPECT_EQ(other.next(), "E"); // no stop text follows
  EXPECT_EQ(other.text(), "##xE");
}

TEST(Answer, TakesTheEndTokensOfTheFiles) {
  const auto tokenizer = make_merged_tokenizer(1);
  const Ids ids{'a', tokenizer->id("<eos>"), 'b'};
  Answer answer = answer_of(tokenizer, Json::object());
  EXPECT_EQ(decide(answer, ids, 2), AnswerEnd::end_token);
  EXPECT_EQ(answer.text(), "a");
  Answer without = answer_of(tokenizer, {{"end_tokens", false}});
  EXPECT_EQ(decide(without, ids, 3), AnswerEnd::full);
  EXPECT_EQ(without.text(), "a<eos>b");
}

TEST(Answer, PositionsBehindAnOpenOneDoNotCount) {
  Answer answer = answer_of(make_byte_tokenizer(), {{"stop_texts", {"c"}}});
  const Ids ids = bytes_of("abcd");
  EXPECT_EQ(answer.update(ids, {kFinal, kMasked, kFinal, kFinal}), AnswerEnd::open);
  EXPECT_EQ(answer.text(), "a");
  EXPECT_EQ(answer.update(ids, {kFixed, kProvisional, kFinal, kFinal}), AnswerEnd::open);
  EXPECT_EQ(answer.text(), "ab"); // with provisional tokens, up to the stop text
  EXPECT_EQ(answer.next(), "a");
  EXPECT_EQ(answer.update(ids, {kFixed, kFinal, kFinal, kMasked}), AnswerEnd::stop_text);
  EXPECT_EQ(answer.next(), "b");
}

TEST(Answer, ReadsThePromptAsAsked) {
  const auto tokenizer = make_piece_tokenizer();
  const int32_t word = tokenizer->id("\u2581ab");
  Ids ids = tokenizer->encode("c"); // begins with <s>
  const auto prompt = static_cast<int64_t>(ids.size());
  ids.insert(ids.end(), {word, word});
  const auto text_of = [&](const char* how) {
    Answer answer =
        answer_of(tokenizer, {{"begin", prompt}, {"prompt", how}, {"stop_texts", {" ab ab"}}});
    decide(answer, ids, ids.size() - 1);
    const std::string shown = answer.text();
    const AnswerEnd end = decide(answer, ids, ids.size());
    return shown + "|" + answer.text() + (end == AnswerEnd::stop_text ? "|stop" : "|full");
  };
  EXPECT_EQ(text_of("before"), " ab||stop");
  EXPECT_EQ(text_of("included"), "c ab|c|stop");
  EXPECT_EQ(text_of("apart"), "ab|ab ab|full"); // as a text of its own, without the first space
}

TEST(Answer, ACanvasWithHolesEndsAtItsLastPosition) {
  const auto tokenizer = make_piece_tokenizer();
  Answer answer = answer_of(tokenizer, {{"begin", -1}, {"stop", {"2"}}, {"stop_texts", {"b"}}});
  Ids ids = tokenizer->encode("ab");
  ids.push_back(2);
  EXPECT_EQ(decide(answer, ids, ids.size()), AnswerEnd::full);
  EXPECT_EQ(answer.text(), "ab"); // an end token in a hole has no text
}

TEST(Answer, IdsOutsideOfTheVocabularyHaveNoText) {
  Answer answer = answer_of(make_byte_tokenizer(), Json::object());
  EXPECT_EQ(decide(answer, {'a', 5000, -1, 'b'}, 4), AnswerEnd::full);
  EXPECT_EQ(answer.text(), "ab");
  EXPECT_EQ(answer.cells()[1], "\u27e85000\u27e9");
}

TEST(Answer, RefusesWhatDoesNotFit) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(error_of([&] {
              answer_of(tokenizer, {{"stop", {"a"}}});
            }),
            "option stop holds \"a\", which is not a token id");
  EXPECT_EQ(error_of([&] {
              answer_of(tokenizer, {{"stop_texts", {""}}});
            }),
            "stop_texts[0] is empty");
}

TEST(Answer, AShortCanvasIsAllPrompt) {
  for (const char* how : {"apart", "before", "included"}) {
    Answer answer = answer_of(make_byte_tokenizer(), {{"begin", 4}, {"prompt", how}});
    EXPECT_EQ(decide(answer, bytes_of("abc"), 0), AnswerEnd::full);
    EXPECT_EQ(answer.text(), how == std::string("included") ? "abc" : "");
    decide(answer, bytes_of("abcdef"), 6);
    EXPECT_EQ(answer.text(), how == std::string("included") ? "abcdef" : "ef");
  }
}

TEST(Answer, PositionsThatOpenAgainDoNotRepeatTheirText) {
  Answer answer = answer_of(make_byte_tokenizer(), Json::object());
  const Ids ids = bytes_of("abcd");
  decide(answer, ids, 3);
  EXPECT_EQ(answer.next(), "abc");
  decide(answer, ids, 1);
  EXPECT_EQ(answer.text(), "a");
  EXPECT_EQ(answer.next(), "");
  decide(answer, ids, 4);
  EXPECT_EQ(answer.next(), "d");
  decide(answer, bytes_of("axcd"), 4);
  EXPECT_EQ(answer.text(), "axcd");
  EXPECT_EQ(error_of([&] { answer.next(); }),
            "byte 1 of the answer has changed, and 4 bytes were returned");
  decide(answer, bytes_of("ab"), 2); // shorter, and over
  EXPECT_EQ(error_of([&] { answer.next(); }),
            "byte 2 of the answer has changed, and 4 bytes were returned");
}

// ---- random canvases ----

class Chance {
public:
  explicit Chance(uint64_t seed) : seed_(seed) {}
  uint32_t below(size_t count) {
    return random_bits_at(make_key(seed_), draws_++) % static_cast<uint32_t>(count);
  }

private:
  uint64_t seed_, draws_ = 0;
};

Ids random_ids(Chance& chance, const Tokenizer& tokenizer, size_t count) {
  const std::string bytes = "ab .\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  Ids ids;
  while (ids.size() < count) {
    const char byte = bytes[chance.below(bytes.size())];
    const std::optional<int32_t> alone = tokenizer.find(
        chance.below(2) == 0 ? byte_token(static_cast<unsigned char>(byte)) : std::string(1, byte));
    const auto any =
        static_cast<int32_t>(256 + chance.below(static_cast<size_t>(tokenizer.size() - 255)));
    if (chance.below(8) == 0)
      for (const int32_t id : tokenizer.encode("\u20ac\U0001F600b")) ids.push_back(id);
    else
      ids.push_back(alone && chance.below(2) == 0 ? *alone : any); // also an id without a token
  }
  ids.resize(count);
  return ids;
}

std::vector<std::string> random_stops(Chance& chance) {
  const char* parts[] = {"a", "b", " ", ".", "\u00e9", "\u20ac", "\U0001F600", "aa"};
  std::vector<std::string> stops(chance.below(3));
  for (std::string& stop : stops) {
    for (uint32_t i = 0; i <= 1 + chance.below(3); ++i) stop += parts[chance.below(8)];
  }
  return stops;
}

std::string random_pattern(Chance& chance) {
  const char* patterns[] = {"", "", "aa+b", "[.b] ", "\u00e9.?a", "a.*b", "(?: |\u20ac){2}"};
  return patterns[chance.below(7)];
}

// Decides a canvas in random order, with provisional tokens that change, and final positions that
// open again for some steps.
struct Steps {
  Steps(Chance& chance, const Tokenizer& tokenizer, Ids ids, size_t begin)
      : chance(chance), tokenizer(tokenizer), wanted(std::move(ids)),
        states(wanted.size(), kMasked) {
    std::fill_n(states.begin(), begin, kFixed);
  }
  void step() {
    for (uint32_t i = 0; i <= chance.below(6); ++i) {
      const size_t at = chance.below(4) == 0 ? chance.below(states.size()) : first_open();
      if (at < states.size() && states[at] != kFixed && states[at] != kFinal)
        states[at] = chance.below(3) == 0 ? kProvisional : kFinal;
    }
  }
  Ids ids() {
    Ids now = wanted;
    for (size_t i = 0; i < now.size(); ++i) {
      if (states[i] == kMasked) now[i] = 0;
      if (states[i] == kProvisional)
        now[i] = static_cast<int32_t>(chance.below(static_cast<size_t>(tokenizer.size())));
    }
    return now;
  }
  States shown() { // one final position may be open again
    States now = states;
    const size_t at = chance.below(now.size());
    if (chance.below(5) == 0 && now[at] == kFinal) now[at] = kMasked;
    return now;
  }
  size_t first_open() const {
    return static_cast<size_t>(
        std::ranges::find_if(states, [](auto s) { return s == kMasked || s == kProvisional; }) -
        states.begin());
  }
  Chance& chance;
  const Tokenizer& tokenizer;
  Ids wanted;
  States states;
};

// breaks: a later byte token may break characters of the byte tokens before it, and the stop text
// that they had.
void check_random_answer(const std::shared_ptr<Tokenizer>& tokenizer, uint64_t seed, bool breaks) {
  Chance chance(seed);
  const size_t count = 1 + chance.below(40), begin = chance.below(std::min<size_t>(count, 6));
  const char* how[] = {"apart", "before", "included"};
  const Json options = {{"begin", begin},
                        {"prompt", how[chance.below(3)]},
                        {"stop_texts", random_stops(chance)},
                        {"stop_pattern", random_pattern(chance)}};
  Steps steps(chance, *tokenizer, random_ids(chance, *tokenizer, count), begin);
  Answer answer = answer_of(tokenizer, options);
  std::string shown;
  AnswerEnd end = AnswerEnd::open;
  States seen;
  while (end == AnswerEnd::open) {
    seen = steps.shown();
    end = answer.update(steps.ids(), seen);
    shown += answer.next();
    ASSERT_TRUE(is_valid_utf8(shown)) << "seed " << seed;
    ASSERT_TRUE(is_valid_utf8(answer.text())) << "seed " << seed;
    steps.step();
  }
  EXPECT_EQ(shown, answer.text()) << "seed " << seed << ", options " << options.dump();
  // The same answer, decided at once.
  Answer whole = answer_of(tokenizer, options);
  EXPECT_EQ(whole.update(steps.wanted, breaks ? seen : States(count, kFinal)), end) << seed;
  EXPECT_EQ(whole.next(), whole.text()) << "seed " << seed;
  EXPECT_EQ(whole.text(), shown) << "seed " << seed << ", options " << options.dump();
}

TEST(Answer, NextReturnsTheTextForEveryOrderOfSteps) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    check_random_answer(make_merged_tokenizer(seed % 10), seed, false);
    check_random_answer(make_byte_tokenizer(), seed, false);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Answer, NextReturnsTheTextOfByteTokens) {
  const auto tokenizer = make_piece_tokenizer();
  for (uint64_t seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed)
    check_random_answer(tokenizer, seed, true);
}

} // namespace
} // namespace dllm::text
