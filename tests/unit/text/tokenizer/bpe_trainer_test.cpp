#include "text/tokenizer.h"

#include "../scratch.h"
#include "base/error.h"
#include "base/random.h"
#include "base/task.h"
#include "golden.h"
#include "text/data/dataset.h"
#include "unit/cancel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace dllm::text {
namespace {

Options with(const char* json) {
  Options options(tokenizer_train_schema());
  options.set_json(parse_json(json, "options"));
  return options;
}

std::shared_ptr<Dataset> texts(const std::vector<std::string>& rows) {
  auto data = std::make_shared<Dataset>(nullptr, Options(dataset_schema()));
  for (const std::string& row : rows) data->add(TreeJson{{"text", row}}.dump());
  return data;
}

// Words drawn with frequencies like a language's: the k-th of 2000 with weight 1/k.
std::string make_text(size_t bytes, uint64_t seed) {
  std::string text;
  uint64_t index = 0;
  const Key key = make_key(seed);
  while (text.size() < bytes) {
    const double u = uniform_from_bits(random_bits_at(key, index++));
    auto word = static_cast<uint64_t>(std::exp(u * std::log(2000.0)));
    text += ' ';
    do {
      text += static_cast<char>('a' + (word * 7 + word / 26) % 26);
      word /= 3;
    } while (word > 0);
    if (index % 9 == 0) text += ".\n";
  }
  return text;
}

// The definition, word for word: count all pairs anew, join the most frequent one, ties to the
// lowest numbers.
std::vector<std::pair<std::string, std::string>>
naive_merges(std::vector<std::vector<std::string>> words, const Tokenizer& numbers, size_t count) {
  std::vector<std::pair<std::string, std::string>> merges;
  while (merges.size() < count) {
    std::map<std::pair<int32_t, int32_t>, int64_t> pairs;
    for (const auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i)
        ++pairs[{numbers.id(word[i]), numbers.id(word[i + 1])}];
    }
    std::pair<int32_t, int32_t> best;
    int64_t most = 1;
    for (const auto& [pair, n] : pairs) {
      if (n > most) best = pair, most = n;
    }
    if (most < 2) break;
    const std::string left(numbers.token(best.first)), right(numbers.token(best.second));
    merges.emplace_back(left, right);
    for (auto& word : words) {
      std::vector<std::string> joined;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool join = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        joined.push_back(join ? left + right : word[i]);
        i += join;
      }
      word = joined;
    }
  }
  return merges;
}

TEST(BpeTrainer, MergesAreThoseOfTheDefinition) {
  const std::string text = make_text(3000, 1) + " aaaaaaa aaaa abababab";
  const auto tokenizer = train_tokenizer(*texts({text}), with(R"({"vocab_size": 400})"), nullptr);
  // Words of letters with their space, lines and dots: what the GPT-2 pattern gives for this text.
  std::vector<std::vector<std::string>> words;
  for (char c : text) {
    const bool letter = c >= 'a' && c <= 'z';
    const bool starts = words.empty() || c == ' ' || !letter || words.back().back() == "." ||
                        words.back().back() == "Ċ";
    if (starts) words.emplace_back();
    words.back().push_back(c == ' ' ? "Ġ" : c == '\n' ? "Ċ" : std::string(1, c));
  }
  const TreeJson merges = TreeJson::parse(tokenizer->to_json())["model"]["merges"];
  const auto want = naive_merges(words, *tokenizer, merges.size());
  ASSERT_EQ(merges.size(), 400u - 256u - 3u);
  ASSERT_EQ(want.size(), merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    EXPECT_EQ(merges[i][0].get<std::string>(), want[i].first) << i;
    EXPECT_EQ(merges[i][1].get<std::string>(), want[i].second) << i;
  }
}

TEST(BpeTrainer, SizeSpecialTokensAndRoundTrip) {
  const std::string text = make_text(200000, 2);
  const auto tokenizer = train_tokenizer(
      *texts({text}), with(R"({"vocab_size": 600, "bos": "<|bos|>", "special_tokens": ["<|x|>"]})"),
      nullptr);
  EXPECT_EQ(tokenizer->size(), 600);
  EXPECT_EQ(tokenizer->id("<|endoftext|>"), tokenizer->special().eos);
  EXPECT_EQ(tokenizer->id("<|mask|>"), tokenizer->special().mask);
  EXPECT_EQ(tokenizer->id("<|pad|>"), tokenizer->special().pad);
  EXPECT_EQ(tokenizer->id("<|bos|>"), tokenizer->special().bos);
  EXPECT_TRUE(tokenizer->is_special(tokenizer->id("<|x|>")));
  const std::vector<int32_t> ids = tokenizer->encode(text);
  EXPECT_LT(ids.size(), text.size() / 2);
  EXPECT_EQ(tokenizer->decode(ids), text);
  const std::string strange = "\xF0\x9F\x98\x80 \xFF\xC3 \xE4\xB8\xAD";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(strange), {.raw = true}), strange);
}

TEST(BpeTrainer, SameFileFromTheSameTexts) {
  std::vector<std::string> rows;
  for (uint64_t i = 0; i < 40; ++i) rows.push_back(make_text(2000, i));
  const std::string first =
      train_tokenizer(*texts(rows), with(R"({"vocab_size": 500})"), nullptr)->to_json();
  std::reverse(rows.begin(), rows.end());
  EXPECT_EQ(train_tokenizer(*texts(rows), with(R"({"vocab_size": 500})"), nullptr)->to_json(),
            first);
}

TEST(BpeTrainer, SavedAndLoadedAgain) {
  Scratch scratch;
  const std::string text = make_text(50000, 3);
  const auto tokenizer = train_tokenizer(
      *texts({text}), with(R"({"vocab_size": 500, "pre_tokenizer": "qwen2"})"), nullptr);
  tokenizer->save(scratch.path());
  const auto back = Tokenizer::load(scratch.path(), Options(tokenizer_schema()));
  EXPECT_EQ(back->encode(text), tokenizer->encode(text));
  EXPECT_EQ(back->size(), tokenizer->size());
  EXPECT_EQ(back->special().mask, tokenizer->special().mask);
  EXPECT_EQ(back->special().eos, tokenizer->special().eos);
  EXPECT_EQ(back->special().pad, tokenizer->special().pad);
  EXPECT_EQ(back->to_json(), tokenizer->to_json());
}

TEST(BpeTrainer, ConversationsGetATemplateAndItsTokens) {
  const auto conversations = std::make_shared<Dataset>(nullptr, Options(dataset_schema()));
  conversations->add(R"({"messages": [{"role": "user", "content": "a cat"}]})");
  const auto plain = texts({"a cat"});
  struct {
    const Dataset& data;
    const char* options;
    bool chatml, llama;
  } const rows[] = {{*conversations, "{}", true, false},
                    {*plain, "{}", false, false},
                    {*conversations, R"({"chat_template": "none"})", false, false},
                    {*plain, R"({"chat_template": "chatml"})", true, false},
                    {*conversations, R"({"chat_template": "llama3"})", false, true},
                    {*plain, R"({"chat_template": "{{ '<|eot_id|>' }}"})", false, true}};
  for (const auto& row : rows) {
    const auto tokenizer = train_tokenizer(row.data, with(row.options), nullptr);
    EXPECT_EQ(tokenizer->find("<|im_end|>").has_value(), row.chatml) << row.options;
    EXPECT_EQ(tokenizer->find("<|eot_id|>").has_value(), row.llama) << row.options;
    EXPECT_EQ(tokenizer->chat_templates().size(), row.chatml || row.llama ? 1u : 0u);
    Scratch scratch;
    tokenizer->save(scratch.path());
    const auto loaded = Tokenizer::load(scratch.path(), Options(tokenizer_schema()));
    EXPECT_EQ(loaded->chat_templates().size(), tokenizer->chat_templates().size()) << row.options;
  }
  EXPECT_THROW(train_tokenizer(*plain, with(R"({"chat_template": "chatlm"})"), nullptr), Error);
}

TEST(BpeTrainer, SaysWhatIsWrong) {
  EXPECT_THROW(train_tokenizer(*texts({"a"}), with(R"({"vocab_size": 258})"), nullptr), Error);
  EXPECT_THROW(train_tokenizer(*texts({"a"}), with(R"({"mask": "m"})"), nullptr), Error);
}

TEST(BpeTrainer, IsCancelledBetweenAnyTwoMerges) {
  const auto data = texts({"the cat and the dog and the cat", "a cat is a cat is a cat"});
  const auto train = [&](Task* task) {
    train_tokenizer(*data, with(R"({"vocab_size": 300})"), task);
  };
  const int64_t checks = test::count_checks(train);
  EXPECT_GT(checks, 20); // of each merge
  for (const int64_t at : test::some_of(checks)) test::cancel_at(at, train);
}

// One text of a megabyte with one word in it: every stage works in pieces.
TEST(BpeTrainer, IsCancelledInsideOfOneText) {
  const auto data = texts({std::string(1 << 20, 'x')});
  const auto train = [&](Task* task) { train_tokenizer(*data, with("{}"), task); };
  for (const int64_t at : {1, 8, 16}) test::cancel_at(at, train);
}

} // namespace
} // namespace dllm::text
