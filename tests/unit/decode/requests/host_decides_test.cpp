// predict, statistics, commit: the host in the place of the policy.

#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::decode {
namespace {

const Json kOneByOne = {
    {"policy", "low_confidence"}, {"steps", 10}, {"gen_length", 10}, {"temperature", 0.8}};

// What low_confidence does with one token a step.
void decide_surest(Decoder& decoder, int64_t slot) {
  const Batch said = decoder.statistics(slot);
  const auto probability = said.at("probability").as<float>();
  const auto best = std::max_element(probability.begin(), probability.end()) - probability.begin();
  const std::vector<int64_t> positions = {
      said.at("positions").as<int32_t>()[static_cast<size_t>(best)]};
  const std::vector<int32_t> ids = {said.at("token").as<int32_t>()[static_cast<size_t>(best)]};
  decoder.commit(slot, positions, ids);
}

TEST(HostDecides, TheSameRuleWritesTheSameTokens) {
  const auto model = tiny_model();
  const auto host = make_decoder(model, kOneByOne), own = make_decoder(model, kOneByOne);
  for (Decoder* decoder : {host.get(), own.get()}) {
    add(*decoder, {{3, 1, 4}, 1, 10});
    add(*decoder, {{2}, 2, 10});
  }
  while (host->metric(-1, "done") == 0) {
    host->predict();
    for (int64_t slot : {0, 1}) decide_surest(*host, slot);
  }
  own->run();
  for (int64_t slot : {0, 1}) EXPECT_EQ(answer_of(*host, slot), answer_of(*own, slot));
  EXPECT_EQ(host->metric(-1, "steps"), own->metric(-1, "steps"));
}

TEST(HostDecides, PredictingTwiceSaysTheSame) {
  const auto decoder = make_decoder(tiny_model(), kOneByOne);
  add(*decoder, {{3, 1, 4}, 1, 10});
  decoder->predict();
  const Batch first = decoder->statistics(0);
  decoder->predict();
  const Batch second = decoder->statistics(0);
  for (const auto& [name, value] : first) {
    const Tensor& again = second.at(name);
    EXPECT_TRUE(std::equal(value.bytes(), value.bytes() + value.byte_size(), again.bytes()))
        << name;
  }
  // And a step of the policy goes on from there.
  EXPECT_GT(decoder->step(), 0);
}

TEST(HostDecides, NewWeightsAreAskedAgain) {
  const auto model = tiny_model();
  const auto decoder = make_decoder(model, kOneByOne);
  add(*decoder, {{3, 1, 4}, 1, 10});
  decoder->predict();
  const Tensor before = decoder->statistics(0).at("max_probability");
  const size_t embedding = model->params().index("embedding");
  Tensor changed = model->params().physical()[embedding].buffer->read().clone();
  for (float& number : changed.mutable_as<float>()) number = -0.5f * number;
  model->params().replace(embedding, model->engine().upload_weight(changed, true));
  model->params().bump();
  decoder->predict();
  const Tensor after = decoder->statistics(0).at("max_probability");
  EXPECT_FALSE(std::equal(before.bytes(), before.bytes() + before.byte_size(), after.bytes()));
}

TEST(HostDecides, BadCommitsWriteNothing) {
  const auto decoder = make_decoder(tiny_model(), kOneByOne);
  add(*decoder, {{3, 1, 4}, 1, 10});
  test::expect_error(Code::failed_precondition, "has no predictions",
                     [&] { decoder->statistics(0); });
  decoder->predict();
  const std::vector<int32_t> before = decoder->request(0).ids;
  test::expect_error(Code::invalid_argument, "position 0 of slot 0 was not predicted", [&] {
    decoder->commit(0, std::vector<int64_t>{5, 0}, std::vector<int32_t>{1, 1});
  });
  test::expect_error(Code::invalid_argument, "token 30 at position 5", [&] {
    decoder->commit(0, std::vector<int64_t>{5}, std::vector<int32_t>{kMask});
  });
  EXPECT_EQ(decoder->request(0).ids, before);
  decoder->commit(0, {}, {});
  EXPECT_EQ(decoder->request(0).ids, before);
  EXPECT_EQ(decoder->metric(0, "steps"), 1);
}

} // namespace
} // namespace dllm::decode
