// WeDLM: which masks a step decides, in which order the pass has the tokens, and the same bits with
// and without a cache.

#include "unit/decode/requests.h"
#include "unit/decode/sessions.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using Positions = std::vector<int64_t>;

Oracle entropies(std::vector<float> by_position) {
  return [=](const Request&, int64_t position) {
    Prediction p;
    p.position = position;
    p.token = p.argmax = 1;
    p.probability = p.max_probability = 0.5f;
    p.entropy = by_position[static_cast<size_t>(position)];
    return p;
  };
}

TEST(Wedlm, DecidesTheSureOnesOfTheWindow) {
  Bench bench("wedlm", 6, {{"window", 4}, {"entropy_threshold", 0.4}, {"position_penalty", 0.1}});
  EXPECT_EQ(bench.next_pass().positions, (Positions{0, 1, 2, 3}));
  // 0.35 + 0.1 and 0.15 + 0.3 are not below the threshold.
  EXPECT_EQ(bench.step(entropies({0.9f, 0.35f, 0.1f, 0.15f, 0, 0})), (Positions{2}));
  PassRequest pass = bench.next_pass();
  EXPECT_EQ(pass.order, (Positions{2, 0, 1, 3}));
  EXPECT_EQ(pass.positions, (Positions{0, 1, 3}));
  // None is sure: the least.
  EXPECT_EQ(bench.step(entropies({0.5f, 0.45f, 0, 0.3f, 0, 0})), (Positions{0}));
  // The window moves with the first mask, at 1.
  pass = bench.next_pass();
  EXPECT_EQ(pass.end, 5);
  EXPECT_EQ(pass.order, (Positions{2, 1, 3, 4}));
}

TEST(Wedlm, KeepsTheBitsOfNone) {
  Json config = tiny_config();
  config.update({{"model_type", "wedlm"}, {"qk_norm", true}, {"head_dim", 6}});
  const auto model = tiny_model(2, config);
  const auto run = [&](const char* cache, bool both) {
    auto decoder = make_decoder(model, {{"policy", "wedlm"},
                                        {"window", 5},
                                        {"entropy_threshold", 3.0},
                                        {"cache", cache},
                                        {"temperature", 0.7}});
    add(*decoder, {{3, 1, 4, 1, 5, 9}, 11, 14});
    if (both) add(*decoder, {{2, 7}, 5, 20});
    decoder->run();
    EXPECT_LE(decoder->metric(0, "nfe"), 14);
    return answer_of(*decoder);
  };
  const Answer wanted = run("none", false);
  EXPECT_EQ(run("exact", false), wanted);
  EXPECT_EQ(run("exact", true), wanted);
}

// A window of one position is next-token decoding with the mask in the token's own place.
TEST(Wedlm, AWindowOfOneIsCausal) {
  const auto model = tiny_model();
  const auto one = make_decoder(model, {{"policy", "wedlm"}, {"window", 1}});
  const auto causal = make_decoder(model, {{"policy", "autoregressive"}, {"shift", 0}});
  for (Decoder* decoder : {one.get(), causal.get()}) {
    add(*decoder, {{3, 1, 4}, 2, 9});
    decoder->run();
  }
  EXPECT_EQ(answer_of(*one).ids, answer_of(*causal).ids);
}

TEST(Wedlm, RefusesAnotherAttention) {
  test::expect_error(Code::invalid_argument, "causal attention, not bidirectional", [] {
    make_decoder(tiny_model(), {{"policy", "wedlm"}, {"attention", "bidirectional"}});
  });
}

} // namespace
} // namespace dllm::decode
