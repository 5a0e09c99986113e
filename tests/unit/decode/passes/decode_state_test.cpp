// Which rows a request gets, what they keep, and what is forgotten.

#include "unit/decode/requests.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

const AttentionSpan kBlocks{4, 0, false};
using Ids = std::vector<int32_t>;

TEST(AttentionSpan, SeesItsOwnBlockAndAllBefore) {
  EXPECT_EQ((AttentionSpan{1, 0, false}).limit(5), 6); // causal
  EXPECT_EQ(kBlocks.limit(3), 4);
  EXPECT_EQ(kBlocks.limit(4), 8);
  const AttentionSpan behind_prompt{4, 6,
                                    false}; // the grid goes on to the left: blocks end at 2, 6, 10
  EXPECT_EQ(behind_prompt.limit(0), 2);
  EXPECT_EQ(behind_prompt.limit(2), 6);
  EXPECT_EQ(behind_prompt.limit(9), 10);
  const AttentionSpan one_prompt{4, 6, true};
  EXPECT_EQ(one_prompt.limit(0), 6);
  EXPECT_EQ(one_prompt.limit(6), 10);
  EXPECT_GT(AttentionSpan{}.limit(0), 1 << 30); // bidirectional
}

TEST(AttentionSpan, FloorIsAnEdgeNoPositionLooksAcross) {
  for (const AttentionSpan& span : {AttentionSpan{1, 0, false}, kBlocks, AttentionSpan{4, 6, false},
                                    AttentionSpan{4, 6, true}, AttentionSpan{3, 1, true}}) {
    for (int64_t position = 0; position < 20; ++position) {
      const int64_t edge = span.floor(position);
      EXPECT_LE(edge, position);
      for (int64_t p = 0; p < edge; ++p) EXPECT_LE(span.limit(p), edge) << position << " " << p;
    }
  }
  EXPECT_EQ(AttentionSpan{}.floor(7), 0);
}

TEST(DecodeState, KeepsTheLongestBeginningOfAFreeRow) {
  DecodeState state(tiny_model());
  const Ids first = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, second = {1, 2, 3, 4, 9, 9, 9, 9};
  const int64_t a = state.acquire(20, {}, kBlocks), b = state.acquire(20, {}, kBlocks);
  ASSERT_NE(a, b);
  state.commit(a, first, 0, 8);
  state.commit(b, second, 0, 8);
  state.release(a);
  state.release(b);
  const Ids third = {1, 2, 3, 4, 5, 6, 7, 7, 7};
  const int64_t c = state.acquire(20, third, kBlocks);
  EXPECT_EQ(c, a);
  EXPECT_EQ(state.view(c).final_end, 4); // six tokens in common, cut at the edge of a block
  EXPECT_EQ(state.reused(), 4);
}

TEST(DecodeState, AnotherAttentionSpanSharesNothing) {
  DecodeState state(tiny_model());
  const Ids ids = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t a = state.acquire(8, {}, kBlocks);
  state.commit(a, ids, 0, 8);
  state.release(a);
  EXPECT_EQ(state.view(state.acquire(8, ids, AttentionSpan{2, 0, false})).final_end, 0);
}

TEST(DecodeState, GrowingKeepsWhatIsThere) {
  const auto model = tiny_model();
  DecodeState state(model);
  const int64_t a = state.acquire(10, {}, kBlocks);
  const Ids ids = {1, 2, 3, 4, 5, 6, 7, 8};
  StateBuffers taken = state.take();
  // Every number of the cache its own, so that a misplaced row shows.
  std::vector<float> numbers(static_cast<size_t>(taken[0]->shape().count()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const Shape shape = taken[0]->shape();
  graph::Engine& engine = model->engine();
  state.give_back(
      {engine.upload(Tensor::from(shape, numbers)), engine.upload(Tensor::from(shape, numbers))});
  state.commit(a, ids, 0, 8);
  const int64_t old_capacity = state.capacity();
  state.acquire(10, {}, kBlocks);  // a second row
  state.acquire(130, {}, kBlocks); // more rows, and longer ones
  EXPECT_GT(state.capacity(), old_capacity);
  EXPECT_EQ(state.view(a).final_end, 8);
  const StateBuffers grown = state.take();
  const Tensor keys = grown[0]->read();
  const int64_t width = model->config().kv_size();
  for (int64_t layer = 0; layer < model->config().layers; ++layer) {
    for (int64_t p = 0; p < 8; ++p) {
      const int64_t to = (layer * state.rows() + a) * state.capacity() + p,
                    from = layer * old_capacity + p;
      EXPECT_EQ(keys.as<float>()[static_cast<size_t>(to * width)],
                static_cast<float>(from * width));
    }
  }
}

TEST(DecodeState, WhatIsNotGivenBackIsLost) {
  DecodeState state(tiny_model());
  const int64_t a = state.acquire(10, {}, kBlocks);
  state.commit(a, Ids{1, 2, 3, 4}, 0, 4);
  const uint64_t before = state.view(a).generation;
  const int64_t other = state.acquire(8, {}, {8, 0, false});
  EXPECT_NE(state.view(other).generation, before); // a request that gets another row sees a change
  state.release(other);
  state.take();
  state.recover();
  EXPECT_EQ(state.view(a).final_end, 0);
  EXPECT_NE(state.view(a).generation, before);
}

TEST(DecodeState, RewindForgetsTheEnd) {
  DecodeState state(tiny_model());
  const int64_t a = state.acquire(10, {}, kBlocks);
  state.commit(a, Ids{1, 2, 3, 4, 5, 6, 7, 8}, 0, 8);
  state.rewind(a, 4);
  EXPECT_EQ(state.view(a).final_end, 4);
  state.commit(a, Ids{1, 2, 3, 4, 9, 9, 9, 9}, 0, 8);
  EXPECT_EQ(state.view(a).final_end, 8);
  state.release(a);
  EXPECT_EQ(state.view(state.acquire(10, Ids{1, 2, 3, 4, 5, 6, 7, 8, 1}, kBlocks)).final_end, 4);
}

} // namespace
} // namespace dllm::decode
