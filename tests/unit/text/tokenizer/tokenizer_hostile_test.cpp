// Files that are wrong: an error that names the fault, never a crash and never a large allocation.
#include "../scratch.h"
#include "base/error.h"
#include "base/random.h"
#include "golden.h"
#include "text/tokenizer.h"

#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::text {
namespace {

void made_of(const std::string& json) {
  Tokenizer(read_tokenizer_json(json, "t.json"), Options(tokenizer_schema()));
}

std::string load(const std::string& json) {
  try {
    made_of(json);
  } catch (const Error& e) {
    return e.text();
  }
  return "no error";
}

// A BPE model of the tokens a and b, with other members around it.
std::string with(const std::string& members) {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, )" + members + "}";
}

TEST(HostileTokenizer, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "t.json is not valid JSON near byte 1"},
      {"[]", "t.json must hold an object, found array"},
      {"{}", "t.json: \"model\" is missing"},
      {R"({"model": 3})", "t.json: model must be an object, found number"},
      {R"({"model": {"type": "Magic"}})",
       "there is no tokenizer model named \"Magic\" in t.json: model"},
      {R"({"model": {"type": "BPE"}})", "t.json: model: \"vocab\" is missing"},
      {R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})",
       "token a has id -1, out of range for 1 tokens"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 2000000000}, "merges": []}})",
       "token a has id 2000000000, out of range for 1 tokens"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 18446744073709551615}, "merges": []}})",
       "token a has id -1, out of range for 1 tokens"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})",
       "id 0 belongs to a and to b"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]}})",
       "t.json: model: merge 0 is a, expected two tokens and a space"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "a"]]}})",
       "t.json: model: merge 0 needs the token aa, which is not in the vocabulary"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [3]}})",
       "t.json: model: merge 0 must be two tokens"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "unk_token": "u", "merges": []}})",
       "unk_token u is not in the vocabulary"},
      {R"({"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1}})",
       "t.json: model: unk_id 1 is beyond the 1 tokens"},
      {R"({"model": {"type": "Unigram", "vocab": [["a"]]}})",
       "t.json: model: vocab[0] must be [token, score]"},
      {with(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a"}})"),
       "t.json: pre_tokenizer: the pattern (a is wrong near byte 2: missing closing parenthesis"},
      {with(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a\\Cb"}})"),
       "t.json: pre_tokenizer: the pattern a\\Cb is wrong near byte 3: using \\C is disabled by "
       "the application"},
      {with(R"("pre_tokenizer": {"type": "Nothing"})"),
       "there is no pre-tokenizer named \"Nothing\" in t.json: pre_tokenizer"},
      {with(
           R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip", "strip_left": 1}]})"),
       "t.json: normalizer.normalizers[1]: \"strip_left\" must be true or false, found number"},
      {with(R"("decoder": {"type": "Strip", "content": "", "start": 1})"),
       "t.json: decoder: \"content\" is empty"},
      {with(R"("added_tokens": [{"content": "x", "id": 2000000000}])"),
       "t.json: added token x has id 2000000000, beyond the 2 tokens"},
      {with(R"("added_tokens": [{"content": "x", "id": 1}])"),
       "t.json: id 1 belongs to b and to the added token x"},
      {with(R"("added_tokens": [{"id": 1}])"), "t.json: added_tokens[0]: \"content\" is missing"},
      {with(
           R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[X]"}}]})"),
       "t.json: post_processor: the template uses [X], which is not a token"},
      {std::string(100000, '['), "t.json is nested deeper than 64"},
  };
  for (const auto& [json, want] : cases) EXPECT_EQ(load(json), want) << json.substr(0, 200);
}

TEST(HostileTokenizer, AMistypedTypeNamesTheNearest) {
  struct Case {
    std::string json, kind, name;
  };
  const Case cases[] = {
      {R"({"model": {"type": "WordPice"}})", "tokenizer model", "WordPiece"},
      {with(R"("normalizer": {"type": "NFCC"})"), "normalizer", "NFC"},
      {with(R"("normalizer": {"type": "StripAcents"})"), "normalizer", "StripAccents"},
      {with(R"("pre_tokenizer": {"type": "Whitespce"})"), "pre-tokenizer", "Whitespace"},
      {with(
           R"("pre_tokenizer": {"type": "Split", "pattern": " ", "behavior": "MergedWithPrevous"})"),
       "behavior", "MergedWithPrevious"},
      {with(R"("post_processor": {"type": "RobertProcessing"})"), "post-processor",
       "RobertaProcessing"},
      {with(R"("decoder": {"type": "ByteLevle"})"), "token decoder", "ByteLevel"},
  };
  for (const Case& wrong : cases) {
    const Error e = test::error_of([&] { made_of(wrong.json); });
    EXPECT_TRUE(e.text().starts_with("there is no " + wrong.kind + " named \"")) << e.text();
    EXPECT_EQ(e.hint(), "did you mean " + wrong.name + "?") << e.text();
  }
}

TEST(HostileTokenizer, PatternsThatWorkForEverAreStopped) {
  const std::string json =
      with(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a)*?b|(?:a+a+)+c"}})");
  const Tokenizer tokenizer(read_tokenizer_json(json, "t.json"), Options(tokenizer_schema()));
  try {
    tokenizer.encode(std::string(200, 'a'));
    FAIL() << "the pattern came to an end";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::resource_exhausted);
    EXPECT_NE(e.text().find("fails at byte"), std::string::npos) << e.text();
  }
}

TEST(HostileTokenizer, ReplacementsCannotFillTheMemory) {
  const std::string grow = R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" +
                           std::string(1000, 'a') + "\"}";
  const std::string json = with(R"("normalizer": {"type": "Sequence", "normalizers": [)" + grow +
                                "," + grow + "," + grow + "," + grow + "]}");
  const Tokenizer tokenizer(read_tokenizer_json(json, "t.json"), Options(tokenizer_schema()));
  try {
    tokenizer.encode("a");
    FAIL() << "4 times a thousand-fold";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::resource_exhausted);
  }
}

TEST(HostileTokenizer, FilesThatAreNotThere) {
  Scratch scratch;
  try {
    Tokenizer::load(scratch.path(), Options(tokenizer_schema()));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::not_found);
    EXPECT_NE(e.text().find("holds no tokenizer.json"), std::string::npos);
  }
  EXPECT_THROW(Tokenizer::load(scratch.path("none"), Options(tokenizer_schema())), Error);
}

// Each broken copy either loads and works or fails with an Error; a crash or any other exception
// ends the test.
TEST(HostileTokenizer, BrokenCopiesOfGoodFiles) {
  const std::string folder = golden_path("torch/tokenizers/");
  if (!file_exists(folder + "strings.json")) GTEST_SKIP() << "no goldens at " << folder;
  int failed = 0, loaded = 0;
  for (const char* name : {"tiny-bpe-split", "tiny-wordpiece", "tiny-unigram"}) {
    const std::string good = read_text(folder + name + ".tokenizer.json");
    for (uint64_t round = 0; round < 150; ++round) {
      std::string bad = good;
      for (uint64_t flip = 0; flip <= round % 3; ++flip) {
        const uint32_t bits = random_bits_at(make_key(round), flip);
        const size_t at = (round % 2 != 0 ? bits % 1500 : bits % bad.size());
        bad[at % bad.size()] = "\"{}[]0-9,:x\\"[(bits >> 24) % 12];
      }
      try {
        const Tokenizer tokenizer(read_tokenizer_json(bad, "t.json"), Options(tokenizer_schema()));
        tokenizer.decode(tokenizer.encode("Hello <|bos|> \xFF world"), {});
        ++loaded;
      } catch (const Error&) {
        ++failed;
      }
    }
  }
  EXPECT_GT(failed, 50);
  EXPECT_GT(loaded, 20);
}

} // namespace
} // namespace dllm::text
