#include "text/tokenizer.h"

#include "../scratch.h"
#include "base/error.h"
#include "base/random.h"
#include "byte_tokenizer.h"
#include "ckpt/gguf/gguf.h"
#include "golden.h"
#include "unit/cancel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace dllm::text {
namespace {

using ckpt::GgufVocabulary;

// "hello" merges to one token behind a space, "aa" and "aaaa" too.
std::shared_ptr<Tokenizer> make_small(const char* options = "{}") {
  Options parsed(tokenizer_schema());
  parsed.set_json(parse_json(options, "options"));
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "smollm";
  for (int b = 0; b < 256; ++b)
    v.tokens.push_back(to_utf8(byte_char(static_cast<unsigned char>(b))));
  const auto merge = [&v](const std::string& left, const std::string& right) {
    v.merges.push_back(left + " " + right);
    v.tokens.push_back(left + right);
  };
  merge("h", "e"), merge("l", "l"), merge("he", "ll"), merge("hell", "o"), merge("Ġ", "hello");
  merge("a", "a"), merge("aa", "aa");
  v.types.assign(v.tokens.size(), 1);
  v.tokens.insert(v.tokens.end(), {"<|im_end|>", "<user>"});
  v.types.insert(v.types.end(), {3, 4});
  v.eos = static_cast<int32_t>(v.tokens.size()) - 2;
  return Tokenizer::from_gguf(v, parsed);
}

std::string random_bytes(uint64_t seed, size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>(random_bits_at(make_key(seed), i) >> 24);
  return text;
}

TEST(Tokenizer, MergesInOrderOfRank) {
  const auto tokenizer = make_small();
  const auto encode = [&](const char* text) { return tokenizer->encode(text); };
  EXPECT_EQ(encode(" hello"), (std::vector<int32_t>{260}));
  EXPECT_EQ(encode("hello"), (std::vector<int32_t>{259}));
  EXPECT_EQ(encode("aaaaaaa"), (std::vector<int32_t>{262, 261, 'a'}));
  EXPECT_EQ(encode("12"), (std::vector<int32_t>{'1', '2'}));
  EXPECT_EQ(encode(""), std::vector<int32_t>{});
}

TEST(Tokenizer, RandomBytesComeBack) {
  for (const auto& tokenizer : {make_small(), make_byte_tokenizer()}) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const std::string text = random_bytes(seed, seed % 64);
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), {.raw = true}), text);
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), {}), replace_invalid(text));
    }
  }
}

TEST(Tokenizer, StreamShowsWholeCharactersOnly) {
  const auto tokenizer = make_byte_tokenizer();
  const std::string text = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80 z";
  const std::vector<int32_t> ids = tokenizer->encode(text);
  std::string shown;
  size_t done = 0;
  for (size_t end = 1; end <= ids.size(); ++end) {
    int64_t used = 0;
    shown += tokenizer->decode_stream(std::span(ids).subspan(done, end - done), {}, used);
    done += static_cast<size_t>(used);
    EXPECT_TRUE(is_valid_utf8(shown));
    EXPECT_EQ(shown, text.substr(0, done));
  }
  EXPECT_EQ(shown, text);
}

TEST(Tokenizer, SpecialTokensInTextCountOnlyWhenAsked) {
  const auto tokenizer = make_small();
  const int32_t end = tokenizer->id("<|im_end|>");
  EXPECT_EQ(tokenizer->encode("<|im_end|>", {.parse_special = true}), (std::vector<int32_t>{end}));
  const std::vector<int32_t> plain = tokenizer->encode("<|im_end|>");
  EXPECT_EQ(plain.size(), 10u);
  EXPECT_EQ(tokenizer->decode(plain), "<|im_end|>");
  // Words added by users are looked for always.
  EXPECT_EQ(tokenizer->encode("<user>"), (std::vector<int32_t>{tokenizer->id("<user>")}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{end, 'a'}, {.skip_special = true}), "a");
  EXPECT_EQ(tokenizer->special().eos, end);
}

TEST(Tokenizer, AddedSpecialTokenIsSaved) {
  const auto tokenizer = make_small(R"({"add_tokens": ["<|mask|>"], "skip_special": true})");
  const int32_t mask = tokenizer->id("<|mask|>");
  EXPECT_EQ(mask, tokenizer->size() - 1);
  EXPECT_EQ(tokenizer->special().mask, mask);
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{mask}), "");
  EXPECT_EQ(tokenizer->add_special_token("<|mask|>"), mask);
  Scratch scratch;
  tokenizer->save(scratch.path("tokenizer.json"));
  const auto back = Tokenizer::load(scratch.path("tokenizer.json"), Options(tokenizer_schema()));
  EXPECT_EQ(back->id("<|mask|>"), mask);
  EXPECT_EQ(back->encode(" hello aaaa 12"), tokenizer->encode(" hello aaaa 12"));
}

TEST(Tokenizer, ConfigNextToTheFileNamesTheSpecialTokens) {
  const auto tokenizer = make_small(R"({"add_tokens": ["<|mask|>", "<|a|>", "<|b|>"]})");
  Scratch scratch;
  scratch.write(
      "tokenizer_config.json",
      R"({"eos_token": "<|a|>", "pad_token": {"content": "<|b|>"}, "bos_token": "<|none|>", "mask_token": null})");
  tokenizer->save(scratch.path("tokenizer.json"));
  for (const std::string& path : {scratch.path(), scratch.path("tokenizer.json")}) {
    const auto back = Tokenizer::load(path, Options(tokenizer_schema()));
    EXPECT_EQ(back->special().eos, back->id("<|a|>"));
    EXPECT_EQ(back->special().pad, back->id("<|b|>"));
    EXPECT_EQ(back->special().mask, back->id("<|mask|>"));
    EXPECT_EQ(back->special().bos, -1);
    Options options(tokenizer_schema());
    options.set_str("eos", "<|b|>");
    EXPECT_EQ(Tokenizer::load(path, options)->special().eos, back->id("<|b|>"));
  }
}

// add_bos_token of the config, where tokenizer.json says nothing of it.
TEST(Tokenizer, PromptsBeginAsTheConfigSays) {
  const auto small = make_small(R"({"add_tokens": ["<|a|>", "<|b|>"]})");
  const std::vector<int32_t> plain = small->encode("hello");
  const int32_t a = small->id("<|a|>"), b = small->id("<|b|>");
  Scratch scratch;
  small->save(scratch.path("tokenizer.json"));
  const auto load = [&](const std::string& config) {
    scratch.write("tokenizer_config.json", config);
    return Tokenizer::load(scratch.path(), Options(tokenizer_schema()));
  };
  const auto with = [&](std::vector<int32_t> ids, bool behind) {
    ids.insert(behind ? ids.end() : ids.begin(), behind ? b : a);
    return ids;
  };
  const auto both = load(
      R"({"bos_token": "<|a|>", "eos_token": "<|b|>", "add_bos_token": true, "add_eos_token": true})");
  EXPECT_EQ(both->encode("hello", EncodeOptions{}), plain);
  EXPECT_EQ(both->encode("hello", {.add_start = true}), with(plain, false));
  EXPECT_EQ(both->encode("hello", {.add_special = true}), with(with(plain, false), true));
  for (const char* config :
       {R"({"bos_token": "<|a|>", "add_bos_token": false})", R"({"bos_token": "<|a|>"})",
        R"({"bos_token": "<|none|>", "add_bos_token": true})", R"({"add_bos_token": true})",
        R"({"bos_token": "<|a|>", "add_bos_token": null})"}) {
    EXPECT_EQ(load(config)->encode("hello", {.add_start = true}), plain) << config;
  }
  // tokenizer.json has priority, and keeps what was found when it is saved.
  Scratch saved;
  both->save(saved.path("tokenizer.json"));
  saved.write("tokenizer_config.json", R"({"bos_token": "<|b|>", "add_bos_token": true})");
  const auto again = Tokenizer::load(saved.path(), Options(tokenizer_schema()));
  EXPECT_EQ(again->encode("hello", {.add_start = true}), with(plain, false));
  EXPECT_THROW(load(R"({"bos_token": "<|a|>", "add_bos_token": "yes"})"), Error);
}

TEST(Tokenizer, NamesAreChecked) {
  const auto tokenizer = make_small();
  EXPECT_THROW(tokenizer->id("nothing"), Error);
  EXPECT_FALSE(tokenizer->find("nothing").has_value());
  EXPECT_THROW(make_small(R"({"mask": "<none>"})"), Error);
  EXPECT_THROW(tokenizer->decode(std::vector<int32_t>{-1}), Error);
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{1 << 30, 'a'}), "a");
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  const auto tokenizer = make_small();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += " hello" + std::to_string(i * 7919);
  const std::vector<int32_t> want = make_small()->encode(text);
  std::vector<std::vector<int32_t>> got(4);
  std::vector<std::thread> threads;
  for (auto& ids : got) threads.emplace_back([&] { ids = tokenizer->encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : got) EXPECT_EQ(ids, want);
}

// A quadratic merge takes minutes here.
TEST(Tokenizer, OneHugeWordIsNoTrouble) {
  const auto tokenizer = make_small();
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<int32_t> ids = tokenizer->encode(std::string(1 << 20, 'a'));
  EXPECT_EQ(ids.size(), size_t{1} << 18);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Tokenizer, SavedFilesGiveTheSameIds) {
  const std::string folder = golden_path("torch/tokenizers/");
  if (!file_exists(folder + "strings.json")) GTEST_SKIP() << "no goldens at " << folder;
  Scratch scratch;
  for (const char* name :
       {"tiny-bpe", "tiny-bpe-split", "tiny-bpe-bytefallback", "tiny-wordpiece", "tiny-unigram"}) {
    const auto tokenizer =
        Tokenizer::load(folder + name + ".tokenizer.json", Options(tokenizer_schema()));
    tokenizer->save(scratch.path("t.json"));
    const auto back = Tokenizer::load(scratch.path("t.json"), Options(tokenizer_schema()));
    EXPECT_EQ(back->size(), tokenizer->size());
    for (const TreeJson& text : read_json(folder + "strings.json")) {
      const EncodeOptions options{.add_special = true, .parse_special = true};
      const std::vector<int32_t> ids = tokenizer->encode(text.get<std::string>(), options);
      EXPECT_EQ(back->encode(text.get<std::string>(), options), ids) << name;
      EXPECT_EQ(back->decode(ids, {}), tokenizer->decode(ids, {})) << name;
    }
  }
}

TEST(GgufVocabulary, SentencePieceMergesTheBestScoreFirst) {
  GgufVocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {2, 3, 3};
  for (int b = 0; b < 256; ++b)
    v.tokens.push_back(byte_token(static_cast<unsigned char>(b))), v.types.push_back(6);
  v.scores.assign(v.tokens.size(), 0.0f);
  for (const auto& [token, score] : {std::pair{"\xE2\x96\x81", -9.0f},
                                     {"a", -9.1f},
                                     {"b", -9.2f},
                                     {"c", -9.3f},
                                     {"ab", -2.0f},
                                     {"bc", -1.0f},
                                     {"\xE2\x96\x81"
                                      "a",
                                      -3.0f}}) {
    v.tokens.push_back(token);
    v.types.push_back(1);
    v.scores.push_back(score);
  }
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.add_bos = true;
  const auto tokenizer = Tokenizer::from_gguf(v, Options(tokenizer_schema()));
  const int32_t bc = tokenizer->id("bc"), ab = tokenizer->id("ab"),
                wa = tokenizer->id("\xE2\x96\x81"
                                   "a");
  EXPECT_EQ(tokenizer->encode("abc"), (std::vector<int32_t>{wa, bc}));
  EXPECT_EQ(tokenizer->encode("bab", {.add_special = true}),
            (std::vector<int32_t>{1, tokenizer->id("\xE2\x96\x81"), tokenizer->id("b"), ab}));
  // How a prompt begins: also an empty one; a second bos is not added.
  EXPECT_EQ(tokenizer->encode("", {.add_start = true}), (std::vector<int32_t>{1}));
  EXPECT_EQ(tokenizer->encode("abc", {.add_start = true}), (std::vector<int32_t>{1, wa, bc}));
  EXPECT_EQ(tokenizer->encode("", {.add_special = true}), (std::vector<int32_t>{1}));
  const std::vector<int32_t> ids = tokenizer->encode("a \xF0\x9F\x98\x80");
  EXPECT_EQ(ids.size(), 6u);
  EXPECT_EQ(tokenizer->decode(ids), "a \xF0\x9F\x98\x80");
}

// What a file without the key begins a text with, and what the key changes.
TEST(GgufVocabulary, PromptsBeginAsTheFileSays) {
  GgufVocabulary v;
  v.tokens = {"<s>", "a", "b", "ab"};
  v.types = {3, 1, 1, 1};
  v.scores = {0, -1, -2, -3};
  v.bos = 0;
  using Ids = std::vector<int32_t>;
  const auto start = [&](const char* model, const char* pre, std::optional<bool> add_bos) {
    v.model = model, v.pre = pre, v.add_bos = add_bos, v.merges = {"a b"};
    v.add_space_prefix = false;
    const auto tokenizer = Tokenizer::from_gguf(v, Options(tokenizer_schema()));
    EXPECT_EQ(tokenizer->encode("ab", EncodeOptions{}), (Ids{3}));
    return tokenizer->encode("ab", {.add_start = true});
  };
  EXPECT_EQ(start("llama", "", std::nullopt), (Ids{0, 3})); // SentencePiece: Gemma, Llama 2
  EXPECT_EQ(start("llama", "", false), (Ids{3}));
  EXPECT_EQ(start("gpt2", "llama-bpe", std::nullopt), (Ids{0, 3})); // Llama 3
  EXPECT_EQ(start("gpt2", "qwen2", std::nullopt), (Ids{3}));
  EXPECT_EQ(start("gpt2", "qwen2", true), (Ids{0, 3}));
  v.bos.reset();
  EXPECT_EQ(start("llama", "", std::nullopt), (Ids{3}));
}

// A template with tokens on both sides: a prompt has those in front, once.
TEST(Tokenizer, PromptsBeginAsThePostProcessorSays) {
  const auto id = [](std::string_view token) { return token == "<s>" ? 7 : 8; };
  const TreeJson json = TreeJson::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}}]}]})");
  const PostProcessor around(json, "post_processor", id);
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(around.begun({1, 2}), (Ids{7, 1, 2}));
  EXPECT_EQ(around.begun({}), (Ids{7}));
  EXPECT_EQ(around.begun({7, 1}), (Ids{7, 1}));
  EXPECT_EQ(around.single({1}).ids, (Ids{7, 1, 8}));
  EXPECT_EQ(PostProcessor().begun({1}), (Ids{1}));
}

TEST(GgufVocabulary, SaysWhatDoesNotFit) {
  GgufVocabulary v;
  v.name = "x.gguf";
  v.model = "gpt2";
  const auto message = [&] {
    try {
      Tokenizer::from_gguf(v, Options(tokenizer_schema()));
    } catch (const Error& e) {
      return e.text();
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(), "x.gguf: the vocabulary is empty");
  v.tokens = {"a", "b"};
  v.types = {1};
  EXPECT_EQ(message(), "x.gguf has 2 tokens but 1 token types");
  v.types = {1, 1};
  v.eos = 2;
  EXPECT_EQ(message(), "x.gguf: the eos token 2 is beyond the 2 tokens");
  v.eos = 1;
  v.merges = {"a b"};
  EXPECT_EQ(message(), "x.gguf: merge 0 needs the token ab, which is not in the vocabulary");
  v.merges = {"ab"};
  EXPECT_EQ(message(), "x.gguf: merge 0 is ab, expected two tokens and a space");
  v.merges.clear();
  v.pre = "smolm";
  EXPECT_EQ(message(), "there is no pre-tokenizer scheme named \"smolm\"");
  v.model = "bert";
  EXPECT_EQ(message(), "there is no tokenizer model named \"bert\" in x.gguf");
}

// The stages of encoding: added tokens, normalizer, words, model; each checks the task.
TEST(Tokenizer, ALongTextIsCancelledInEveryStage) {
  const auto tokenizer = make_byte_tokenizer();
  std::string words, one_word(1 << 20, 'x');
  while (words.size() < (1 << 20)) words += "some words\xC3\xA9 <|mask|> ";
  for (const std::string& text : {words, one_word}) {
    std::vector<int32_t> ids;
    const auto encode = [&](const Task* task) { ids = tokenizer->encode(text, task); };
    const int64_t checks = test::count_checks(encode);
    EXPECT_GE(checks, 2 * 16) << "64 KB at most between two checks";
    const std::vector<int32_t> whole = ids;
    for (const int64_t at : test::some_of(checks)) EXPECT_LE(test::cancel_at(at, encode), 0);
    encode(nullptr);
    EXPECT_EQ(ids, whole);
  }
}

// Pieces begin where nothing combines with what stands before, so that cutting changes nothing.
TEST(Normalizer, LongTextsAreTheSameInPieces) {
  const std::string unit = "Ae\xCC\x81 \xE3\x81\x8B\xE3\x82\x99 \xE4\xB8\xAD\xE6\x96\x87 "
                           "\xEA\xB0\x80\xE1\x86\xA8 \xEF\xAC\x81 ";
  for (const char* type :
       {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel"}) {
    const auto normalizer = read_normalizer(TreeJson{{"type", type}}, "test");
    std::string once = unit;
    normalizer->apply(once);
    std::string text, expected;
    for (int i = 0; i < 9000; ++i) {
      text += unit;
      expected += once;
    }
    ASSERT_GT(text.size(), size_t{3} << 16);
    normalizer->apply(text);
    EXPECT_TRUE(text == expected) << type;
    for (int64_t at : {1, 3}) {
      test::cancel_at(at, [&](const Task* task) {
        std::string again = expected + "\xC3\xA9";
        normalizer->apply(again, task);
      });
    }
  }
}

TEST(SaveTokenizer, ReplacesItsOwnFilesAlone) {
  Scratch scratch;
  const auto tokenizer = make_byte_tokenizer();
  const auto refuses = [&](const std::string& path, const std::string& named) {
    try {
      tokenizer->save(path);
      ADD_FAILURE() << path;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::already_exists);
      EXPECT_EQ(e.text(), named + " is not replaced: no save of a tokenizer wrote it");
    }
  };
  for (int i = 0; i < 2; ++i) {
    tokenizer->save(scratch.path("own.json"));
    tokenizer->save(scratch.path()); // a folder
  }
  EXPECT_EQ(Tokenizer::load(scratch.path(), Options(tokenizer_schema()))->size(),
            tokenizer->size());
  const std::string thesis = scratch.write("thesis.txt", "mine");
  refuses(thesis, thesis);
  const std::string config =
      scratch.write("hub/tokenizer_config.json",
                    R"({"tokenizer_class": "LlamaTokenizer", "model_max_length": 8})");
  refuses(scratch.path("hub"), config);
  EXPECT_EQ(list_directory(scratch.path("hub")), std::vector<std::string>{"tokenizer_config.json"});
  std::filesystem::create_symlink(scratch.path("own.json"), scratch.path("link.json"));
  refuses(scratch.path("link.json"), scratch.path("link.json"));
  EXPECT_EQ(read_text(thesis), "mine");
}

} // namespace
} // namespace dllm::text
