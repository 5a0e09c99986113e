// Block diffusion: where blocks begin, how many steps they take, what ends a request.

#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::decode {
namespace {

using test::expect_error;

Json settings(const Json& more = Json::object()) {
  Json all = {{"policy", "bd3lm"}, {"block_length", 4}, {"steps_per_block", 2}};
  all.update(more);
  return all;
}

std::vector<std::pair<int64_t, int64_t>> blocks_of(Decoder& decoder) {
  std::vector<std::pair<int64_t, int64_t>> blocks;
  decoder.run([&](const Event& event) {
    if (event.kind() == EventKind::block)
      blocks.emplace_back(std::get<int64_t>(*event.find("begin")),
                          std::get<int64_t>(*event.find("end")));
    return dllm::Answer::go_on;
  });
  return blocks;
}

TEST(Bd3lm, BlocksFollowThePromptWithTheirOwnSteps) {
  const auto decoder = make_decoder(tiny_model(), settings());
  add(*decoder, {{3, 1, 4}, 1, 10});
  const std::vector<std::pair<int64_t, int64_t>> want = {{3, 7}, {7, 11}, {11, 13}};
  EXPECT_EQ(blocks_of(*decoder), want);
  EXPECT_EQ(decoder->request(0).evaluations, 6);
  // One pass more a block, as the source counts.
  EXPECT_EQ(decoder->metric(0, "nfe"), 9);
}

TEST(Bd3lm, LaterBlocksDoNotCount) {
  // Nothing behind a block is seen: a shorter request is the beginning of a longer one.
  const auto decoder = make_decoder(tiny_model(), settings());
  add(*decoder, {{3, 1, 4}, 1, 8});
  add(*decoder, {{3, 1, 4}, 1, 16});
  decoder->run();
  const std::vector<int32_t> brief = decoder->request(0).ids, extended = decoder->request(1).ids;
  EXPECT_TRUE(std::equal(brief.begin(), brief.end(), extended.begin()));
}

TEST(Bd3lm, TheBlockWithTheEndTokenIsTheLast) {
  const auto model = tiny_model();
  const auto whole = make_decoder(model, settings());
  add(*whole, {{3, 1, 4}, 1, 16});
  whole->run();
  const std::vector<int32_t> ids = whole->request(0).ids;
  const int32_t end = ids[8]; // of the second block
  const auto first = std::find(ids.begin() + 3, ids.end(), end) - ids.begin();
  const auto decoder = make_decoder(model, settings({{"eos", end}}));
  add(*decoder, {{3, 1, 4}, 1, 16});
  decoder->run();
  const Request& slot = decoder->request(0);
  const int64_t block_end = 3 + ((first - 3) / 4 + 1) * 4;
  EXPECT_EQ(slot.finish, Finish::stopped);
  EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + block_end, slot.ids.begin()));
  for (int64_t i = block_end; i < slot.length(); ++i)
    EXPECT_EQ(slot.ids[static_cast<size_t>(i)], end);
  EXPECT_EQ(slot.decided, 16);
}

TEST(Bd3lm, GuidanceMovesTheTokensAndCountsTwice) {
  const auto model = tiny_model();
  const auto plain = make_decoder(model, settings());
  const auto guided = make_decoder(model, settings({{"guidance", 3.0}}));
  for (Decoder* decoder : {plain.get(), guided.get()}) {
    add(*decoder, {{3, 1, 4, 1, 5}, 1, 16});
    decoder->run();
  }
  EXPECT_NE(answer_of(*plain).ids, answer_of(*guided).ids);
  EXPECT_EQ(guided->metric(0, "nfe"), 2 * plain->metric(0, "nfe"));
}

TEST(Bd3lm, LeftOutTokensAreAsIfTheyWereNotThere) {
  const auto model = tiny_model();
  const auto with = make_decoder(model, settings({{"compat_pad", 2}, {"suppress", {"2"}}}));
  const auto without = make_decoder(model, settings({{"cache", "none"}, {"suppress", {"2"}}}));
  // In front and between.
  add(*with, {{2, 2, 3, 1, 2, 4}, 1, 4});
  add(*without, {{3, 1, 4}, 1, 4});
  with->run(), without->run();
  const std::vector<int32_t> a = with->request(0).ids, b = without->request(0).ids;
  EXPECT_EQ(std::vector<int32_t>(a.begin() + 6, a.end()),
            std::vector<int32_t>(b.begin() + 3, b.end()));
}

TEST(Bd3lm, APromptSharesWhatALongerOneLeft) {
  const auto model = tiny_model();
  const auto cached = make_decoder(model, settings());
  const auto plain = make_decoder(model, settings({{"cache", "none"}}));
  add(*cached, {{9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2}, 1, 8});
  cached->run();
  cached->remove(0);
  for (Decoder* decoder : {cached.get(), plain.get()}) {
    add(*decoder, {{9, 2, 6, 5, 3, 5, 8, 9}, 2, 8});
    decoder->run();
  }
  EXPECT_EQ(answer_of(*cached), answer_of(*plain));
  EXPECT_GE(cached->metric(-1, "reused"), 8);
}

TEST(Bd3lm, BlocksAreTheModelsByDefault) {
  Json config = tiny_config();
  config["dllm"] = {{"attention", "block_causal"}, {"block_length", 8}};
  const auto model = tiny_model(1, config);
  const auto first_end = [&](const Json& own) {
    const auto decoder = make_decoder(model, own);
    add(*decoder, {{3, 1, 4}, 1, 20});
    return blocks_of(*decoder).front().second;
  };
  EXPECT_EQ(first_end({{"policy", "bd3lm"}}), 11);
  EXPECT_EQ(first_end(settings()), 7);
}

TEST(Bd3lm, OptionsThatDoNotGoTogether) {
  const auto model = tiny_model();
  expect_error(Code::invalid_argument, "block_causal attention, not causal", [&] {
    make_decoder(model, settings({{"attention", "causal"}}));
  });
  expect_error(Code::invalid_argument, "cache dual approximates", [&] {
    make_decoder(model, settings({{"cache", "dual"}}));
  });
  expect_error(Code::invalid_argument, "eos is 31", [&] {
    make_decoder(model, settings({{"eos", 31}}));
  });
  expect_error(Code::invalid_argument, "compat_pad is 99", [&] {
    make_decoder(model, settings({{"compat_pad", 99}}));
  });
}

} // namespace
} // namespace dllm::decode
