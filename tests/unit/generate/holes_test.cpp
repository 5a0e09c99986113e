#include "generate/holes.h"

#include "base/error.h"
#include "generate/prompt.h"
#include "texts.h"

#include <gtest/gtest.h>

namespace dllm::generate {
namespace {

TEST(Holes, EveryForm) {
  struct Case {
    const char* text;
    std::vector<int64_t> lengths;
  };
  const Case cases[] = {{"", {}},
                        {"no hole", {}},
                        {"<mask>", {1}},
                        {"a<mask:3>b<mask>", {3, 1}},
                        {"<mask:999999>", {999999}},
                        {"<mask", {}},
                        {"a <mask and much text before the end>", {}},
                        {"<<mask:2>>", {2}}};
  for (const Case& one : cases) {
    std::vector<int64_t> lengths;
    for (const Hole& hole : find_holes(one.text)) lengths.push_back(hole.length);
    EXPECT_EQ(lengths, one.lengths) << one.text;
  }
  for (const char* text : {"<mask:0>", "<mask:x>", "<mask:>", "<mask:1000000>", "<mask:-1>",
                           "<mask:+1>", "<mask: 1>", "<masks>", "<mask:1x>"})
    EXPECT_THROW(find_holes(text), Error) << text;
}

TEST(Holes, TheTextOfACanvasCanBeRead) {
  const auto tokenizer = letters();
  using enum text::PositionState;
  const std::vector<int32_t> ids = {0, kMask, kMask, 1, kMask};
  const std::vector<text::PositionState> states = {fixed, masked, masked, final, masked};
  const std::string text = text_with_holes(*tokenizer, ids, states);
  EXPECT_EQ(text, "a<mask:2>b<mask:1>");
  EXPECT_EQ(find_holes(text).size(), 2u);
}

// A tokenizer whose words begin with a token for the space.
std::shared_ptr<text::Tokenizer> words() {
  const Json space = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  const Json vocabulary = {{"\u2581", 0}, {"a", 1}, {"b", 2}};
  const Json file = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}},
                     {"pre_tokenizer", space},
                     {"decoder", space}};
  MemorySource source;
  const std::string json = file.dump();
  source.add("tokenizer.json", json.data(), json.size(), true);
  return text::Tokenizer::load(source, Options(text::tokenizer_schema()));
}

TEST(Holes, APieceAfterAHoleBeginsNoWord) {
  const Prompt glued = make_prompt(words(), request({{"infill", "a<mask>b"}}), nullptr);
  EXPECT_EQ(glued.canvas, (std::vector<int32_t>{0, 1, 0, 2}));
  const Prompt apart = make_prompt(words(), request({{"infill", "a<mask> b"}}), nullptr);
  EXPECT_EQ(apart.canvas, (std::vector<int32_t>{0, 1, 0, 0, 2}));
  using enum text::PositionState;
  const std::vector<int32_t> ids = {0, 1, 2, 0, 2};
  EXPECT_EQ(text_with_holes(*words(), ids, std::vector{fixed, fixed, masked, fixed, fixed}),
            "a<mask:1> b");
}

} // namespace
} // namespace dllm::generate
