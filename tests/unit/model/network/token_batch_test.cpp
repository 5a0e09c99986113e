#include "model/network/token_batch.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

Batch four_tokens() {
  Batch batch;
  batch.set("ids", Tensor::from(Shape{2, 2}, std::vector<int32_t>{1, 2, 3, 4}));
  return batch;
}

TokenRules rules_for(TokenUse use) {
  TokenRules rules;
  rules.use = use;
  rules.vocab = 9;
  rules.position_limit = 8;
  return rules;
}

std::string error_of(const Batch& batch, const TokenRules& rules) {
  try {
    parse_tokens(batch, rules);
  } catch (const Error& error) {
    return error.text();
  }
  return "no error";
}

TEST(TokenBatch, RowsWithoutTokensAreRefusedInEveryUse) {
  Batch batch;
  batch.set("ids", Tensor(DType::i32, {241000, 0}));
  for (const TokenUse use : {TokenUse::model_input, TokenUse::raw_rows})
    EXPECT_NE(error_of(batch, rules_for(use)).find("no empty axis"), std::string::npos);
}

TEST(TokenBatch, EveryUseNeedsItsArraysAndIgnoresTheRest) {
  Batch batch = four_tokens();
  batch.set("weights", Tensor(DType::f32, {2, 2}));
  EXPECT_EQ(error_of(batch, rules_for(TokenUse::model_input)), "no error");
  EXPECT_EQ(error_of(batch, rules_for(TokenUse::raw_rows)), "no error");
  EXPECT_NE(error_of(batch, rules_for(TokenUse::loss)).find("targets"), std::string::npos);
  batch.set("targets", Tensor::from(Shape{2, 2}, std::vector<int32_t>{-1, 8, -1, 0}));
  const TokenBatch rows = parse_tokens(batch, rules_for(TokenUse::loss));
  EXPECT_EQ(rows.batch, 2);
  EXPECT_EQ(rows.seq, 2);
  EXPECT_FALSE(rows.normalizer.defined());
  TokenRules timed = rules_for(TokenUse::model_input);
  timed.time_conditioning = true;
  EXPECT_NE(error_of(batch, timed).find("timesteps"), std::string::npos);
}

TEST(TokenBatch, WholeNumbersOfAnyTypeAreConverted) {
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, 3}, std::vector<int64_t>{1, 2, 3}));
  batch.set("keep", Tensor::from(Shape{1, 3}, std::vector<int32_t>{1, 0, 0}));
  const TokenBatch rows = parse_tokens(batch, rules_for(TokenUse::raw_rows));
  EXPECT_EQ(rows.ids.as<int32_t>()[2], 3);
  EXPECT_EQ(rows.keep.as<uint8_t>()[0], 1);
  batch.set("keep", Tensor(DType::f32, {1, 3}));
  EXPECT_EQ(error_of(batch, rules_for(TokenUse::raw_rows)),
            "array keep is f32(1, 3), expected u8(1, 3)");
}

TEST(TokenBatch, OneMaskServesAllRows) {
  Batch batch = four_tokens();
  batch.set("mask", Tensor::from(Shape{1, 2, 2}, std::vector<uint8_t>{1, 0, 1, 1}));
  const TokenBatch rows = parse_tokens(batch, rules_for(TokenUse::model_input));
  const Tensor all = input_arrays(rows, AttentionKind::bidirectional, 0).at("mask");
  EXPECT_EQ(all.shape(), (Shape{2, 2, 2}));
  const auto values = all.as<uint8_t>();
  EXPECT_EQ(std::vector<uint8_t>(values.begin(), values.end()),
            (std::vector<uint8_t>{1, 0, 1, 1, 1, 0, 1, 1}));
}

TEST(TokenBatch, AttentionSaysWhichArraysAProgramGets) {
  const TokenBatch rows = parse_tokens(four_tokens(), rules_for(TokenUse::model_input));
  EXPECT_EQ(input_arrays(rows, AttentionKind::causal, 0).size(), 1u);
  EXPECT_EQ(input_arrays(rows, AttentionKind::block_causal, 2).at("block").as<int32_t>()[0], 2);
  const Batch two = input_arrays(rows, AttentionKind::two_stream, 1);
  EXPECT_EQ(two.at("length").as<int32_t>()[0], 1);
  const auto positions = two.at("positions").as<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(positions.begin(), positions.end()),
            (std::vector<int32_t>{0, 0, 0, 0}));
  try {
    input_arrays(rows, AttentionKind::block_causal, 0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::failed_precondition);
    EXPECT_NE(error.text().find("needs a block length"), std::string::npos);
  }
}

TEST(TokenBatch, TheMaskHasATermForEachArray) {
  graph::Graph graph("mask");
  std::map<std::string, graph::Value> arrays = {
      {"ids", graph.input("ids", DType::i32, {2, 4})},
      {"block", graph.input("block", DType::i32, Shape{})},
      {"segments", graph.input("segments", DType::i32, {2, 4})},
      {"keys", graph.input("keys", DType::u8, {2, 4})},
      {"mask", graph.input("mask", DType::u8, {2, 4, 4})}};
  const ForwardInputs inputs = forward_inputs(arrays, AttentionKind::block_causal, false);
  EXPECT_EQ(inputs.mask.terms.size(), 4u);
  EXPECT_EQ(inputs.mask.kinds().substr(0, 12), "block_causal");
  EXPECT_EQ(forward_inputs(arrays, AttentionKind::bidirectional, false).mask.terms.size(), 3u);
}

} // namespace
} // namespace dllm::model
