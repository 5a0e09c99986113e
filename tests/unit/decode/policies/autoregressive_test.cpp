// Next-token decoding: the same tokens as one-position blocks, one new row a step.

#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using test::expect_error;

TEST(Autoregressive, EqualsBlocksOfOne) {
  const auto model = tiny_model();
  const auto mine = make_decoder(model, {{"policy", "autoregressive"}});
  const auto blocks = make_decoder(model, {{"policy", "low_confidence"},
                                           {"attention", "causal"},
                                           {"shift", 1},
                                           {"steps", 20},
                                           {"block_length", 1}});
  for (Decoder* decoder : {mine.get(), blocks.get()}) {
    add(*decoder, {{3, 1, 4}, 1, 20});
    decoder->run();
  }
  EXPECT_EQ(answer_of(*mine), answer_of(*blocks));
  EXPECT_EQ(mine->metric(0, "nfe"), 20);
}

TEST(Autoregressive, DecidesFromLeftToRightAroundGivenTokens) {
  const auto decoder = make_decoder(tiny_model(), {{"policy", "autoregressive"}});
  const std::vector<int32_t> canvas = {3, 0, 0, 7, 0, 9};
  const std::vector<uint8_t> fixed = {1, 0, 0, 1, 0, 1};
  decoder->add(canvas, fixed, slot_options());
  std::vector<int64_t> next;
  for (bool active = true; active;) {
    next.push_back(decoder->request(0).open_positions(0, 6).front());
    active = decoder->step() > 0;
  }
  EXPECT_EQ(next, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(decoder->request(0).ids[3], 7);
  EXPECT_EQ(decoder->request(0).ids[5], 9);
}

TEST(Autoregressive, StopsAtAStopToken) {
  const auto model = tiny_model();
  const auto whole = make_decoder(model, {{"policy", "autoregressive"}, {"gen_length", 12}});
  whole->start(std::vector<int32_t>{3, 1}, 0);
  whole->run();
  const int32_t stop = whole->request(0).ids[6];
  const auto decoder = make_decoder(model, {{"policy", "autoregressive"}, {"gen_length", 12}});
  decoder->add(std::vector<int32_t>{3, 1}, {}, slot_options({{"stop", {std::to_string(stop)}}}));
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "finish"), 2);
  EXPECT_LE(decoder->metric(0, "nfe"), 5);
  EXPECT_EQ(decoder->request(0).ids.back(), stop);
}

TEST(Autoregressive, NeedsNoMaskToken) {
  Json config = tiny_config();
  config.erase("mask_token_id");
  const auto model = tiny_model(1, config);
  const auto decoder = make_decoder(model, {{"policy", "autoregressive"}, {"gen_length", 6}});
  decoder->start(std::vector<int32_t>{3, 1}, 0);
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "decided"), 6);
  expect_error(Code::failed_precondition, "no mask token", [&] {
    make_decoder(model, {{"policy", "autoregressive"}, {"shift", 0}});
  });
}

TEST(Autoregressive, OptionsThatDoNotGoTogether) {
  const auto model = tiny_model();
  expect_error(Code::invalid_argument, "causal attention, not bidirectional", [&] {
    make_decoder(model, {{"policy", "autoregressive"}, {"attention", "bidirectional"}});
  });
  expect_error(Code::invalid_argument, "no guidance", [&] {
    make_decoder(model, {{"policy", "autoregressive"}, {"guidance", 1.0}});
  });
}

} // namespace
} // namespace dllm::decode
