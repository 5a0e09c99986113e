// The loss and token statistics at the borders of their tiles and parts of the vocabulary: lowered
// against the kernels of the CPU engine.

#include "graph/filters/filter.h"
#include "unit/graph/case_builder.h"
#include "unit/pjrt/lower/lower_tools.h"

namespace dllm::pjrt {
namespace {

using graph::Value;
using graph::test::CaseBuilder;

struct LossSizes {
  int64_t rows, vocab, in;
  int32_t count; // -1: not given
  DType weight = DType::f32;
  float softcap = 0;
};

graph::test::OpCase loss_case(const LossSizes& s) {
  CaseBuilder b("linear_cross_entropy", std::to_string(s.rows) + " x " + std::to_string(s.vocab) +
                                            " count " + std::to_string(s.count) + " " +
                                            dtype_name(s.weight));
  const Shape matrix{s.vocab, s.in};
  const Value x = b.f({s.rows, s.in});
  const Value weight = s.weight == DType::f32    ? b.f(matrix)
                       : s.weight == DType::bf16 ? b.bf16(matrix)
                                                 : b.i8(matrix);
  const Value bias = b.f({s.vocab});
  const Value scale = s.weight == DType::i8 ? b.fixed({s.vocab}, 0, 0.02) : Value{};
  // Some targets are outside.
  const Value targets = b.i({s.rows}, -static_cast<int32_t>(s.vocab / 9),
                            static_cast<int32_t>(s.vocab + s.vocab / 9));
  const Value count = s.count >= 0 ? b.ints({}, {s.count}) : Value{};
  const Value nll = linear_cross_entropy(x, weight, bias, scale, targets, count, s.softcap);
  const graph::Node& node = b.graph().nodes()[static_cast<size_t>(b.graph().producer(nll.id))];
  auto made = b.done({nll, b.graph().value(node.outputs[1])}, 1);
  add_gradients(*made.graph, made.wrt, made.grad_outputs);
  return made;
}

TEST(LowerLoss, RowsAroundTheTiles) {
  for (int64_t rows : {2047, 2048, 2049, 4097}) {
    for (int32_t count : {-1, 0, 1, 2048, 2049, 5000}) {
      const auto c = loss_case({rows, 37, 5, count});
      expect_same_lowered(c.graph, c.inputs, 1e-5, c.label);
    }
  }
}

TEST(LowerLoss, VocabularyAroundTheParts) {
  // 2048 rows: parts of 8192 ids.
  for (int64_t vocab : {8191, 8192, 8193, 16384, 20000}) {
    const auto c = loss_case({2048, vocab, 4, 1500, DType::f32, 2.0f});
    EXPECT_LE(largest_value(*lower(*c.graph)), int64_t{2048} * 8192);
    expect_same_lowered(c.graph, c.inputs, 1e-5, c.label);
  }
}

TEST(LowerLoss, NarrowWeights) {
  for (DType dtype : {DType::bf16, DType::i8}) {
    const auto c = loss_case({2500, 20000, 4, 2400, dtype});
    expect_same_lowered(c.graph, c.inputs, 2e-5, c.label); // sums of 20000 f32 numbers
  }
}

TEST(LowerLoss, NeverHoldsRowsTimesVocabulary) {
  const auto c = loss_case({8192, 50000, 8, 5000});
  EXPECT_LE(largest_value(*lower(*c.graph)), int64_t{1} << 24);
}

TEST(LowerLoss, AxesAreKept) {
  expect_axes_kept(*loss_case({2049, 37, 5, 2048}).graph);
  expect_axes_kept(*loss_case({2048, 9000, 4, 5}).graph);
}

struct StatisticsSizes {
  int64_t rows, vocab;
  int64_t top = 1;
  bool sampled = true, filtered = true, banned = false, noise = false;
  bool nucleus_first = false, shaped = false;
  int32_t count = -1;
};

graph::test::OpCase statistics_case(const StatisticsSizes& s, const std::string& label) {
  CaseBuilder b("token_statistics", label);
  graph::TokenStatisticsInputs in;
  in.x = b.fixed({s.rows, 6});
  in.weight = b.fixed({s.vocab, 6});
  if (s.count >= 0) in.count = b.ints({}, {s.count});
  std::vector<float> temperature, top_p;
  std::vector<int32_t> top_k;
  for (int64_t r = 0; r < s.rows; ++r) {
    temperature.push_back(s.sampled && r % 4 != 0 ? 0.4f + 0.1f * static_cast<float>(r % 7) : 0);
    top_k.push_back(s.filtered && r % 3 == 1 ? static_cast<int32_t>(1 + r * 5 % s.vocab) : 0);
    top_p.push_back(s.filtered && r % 5 > 2 ? 0.1f * static_cast<float>(r % 10) : 1.0f);
  }
  in.temperature = b.given(Tensor::from(Shape{s.rows}, temperature));
  in.filters = {{"top_k", b.ints({s.rows}, top_k)},
                {"top_p", b.given(Tensor::from(Shape{s.rows}, top_p))}};
  if (s.nucleus_first) std::swap(in.filters[0], in.filters[1]);
  for (const graph::DrawFilter& filter : graph::draw_filters()) {
    if (filter.in_every_program || !s.filtered) continue;
    std::vector<float> settings;
    for (int64_t r = 0; r < s.rows; ++r)
      settings.push_back(static_cast<float>(r % 4 == 1 ? 0.05 + 0.013 * static_cast<double>(r % 50)
                                                       : filter.off()));
    in.filters.emplace_back(filter.name(), b.given(Tensor::from(Shape{s.rows}, settings)));
  }
  in.uniform = b.fixed({s.rows}, 0, 1);
  if (s.noise) in.noise = b.fixed({s.rows, s.vocab}, -1, 6);
  if (s.banned) in.banned = b.u8({s.vocab});
  in.shaped = s.shaped;
  const graph::TokenStatistics made = token_statistics(in, s.top);
  return b.done({made.argmax, made.max_prob, made.log_sum_exp, made.entropy, made.top_ids,
                 made.top_probs, made.draw, made.draw_prob, made.shaped_prob, made.shaped_margin,
                 made.shaped_entropy},
                0);
}

void check(const StatisticsSizes& s, const std::string& label) {
  const auto c = statistics_case(s, label);
  expect_same_lowered(c.graph, c.inputs, 1e-5, label);
}

TEST(LowerStatistics, GreedyRows) {
  check({33, 1000, 1, false, false}, "greedy");
  check({33, 1000, 3, false, false, true}, "greedy, three, banned");
  check({33, 1000, 9, false, false, false, false, false, false, 20}, "greedy, nine, count");
  check({5, 1000, 70, false, false}, "greedy, seventy");
  check({5, 12, 12, false, false, true}, "all ids in order, some banned");
}

TEST(LowerStatistics, Draws) {
  for (int64_t vocab : {2, 511, 512, 513, 5000}) {
    const std::string of = " of " + std::to_string(vocab);
    check({61, vocab, 1, true, false}, "drawn" + of);
    check({61, vocab, 2, true, true, true}, "drawn, filters, banned" + of);
    check({61, vocab, 2, true, true, false, false, true}, "drawn, nucleus first" + of);
    check({61, vocab, 1, true, true, true, true}, "noise" + of);
  }
}

TEST(LowerStatistics, Shaped) {
  check({61, 3000, 2, true, true, true, false, false, true}, "shaped");
  check({61, 3000, 2, false, true, true, false, true, true, 50}, "shaped, greedy");
}

// Many equal logits: ids decide what the filters keep.
TEST(LowerStatistics, Ties) {
  CaseBuilder b("token_statistics", "ties");
  constexpr int64_t kRows = 40, kVocab = 700;
  graph::TokenStatisticsInputs in;
  std::vector<float> ids;
  for (int64_t v = 0; v < kVocab; ++v) ids.push_back(static_cast<float>(v * 31 % 7) - 3.0f);
  in.x = b.given(Tensor::from(Shape{kRows, 1}, std::vector<float>(kRows, 1.0f)));
  in.weight = b.given(Tensor::from(Shape{kVocab, 1}, ids));
  std::vector<float> temperature(kRows, 1.0f), top_p;
  std::vector<int32_t> top_k;
  for (int64_t r = 0; r < kRows; ++r) {
    top_k.push_back(static_cast<int32_t>(r % 2 == 0 ? 5 + 13 * r : 0));
    top_p.push_back(r % 2 == 0 ? 1.0f : 0.023f * static_cast<float>(r));
  }
  in.temperature = b.given(Tensor::from(Shape{kRows}, temperature));
  in.filters = {{"top_k", b.ints({kRows}, top_k)},
                {"top_p", b.given(Tensor::from(Shape{kRows}, top_p))}};
  in.uniform = b.fixed({kRows}, 0.9, 1);
  const graph::TokenStatistics made = token_statistics(in, 4);
  const auto c = b.done({made.draw, made.top_ids, made.argmax}, 0);
  expect_same_lowered(c.graph, c.inputs, 0, c.label);
}

TEST(LowerStatistics, SeveralTiles) {
  for (int32_t count : {-1, 0, 100, 230})
    check({230, 151936, 1, count == 100, false, false, false, false, false, count},
          "tiles, count " + std::to_string(count));
}

TEST(LowerStatistics, AxesAreKept) {
  StatisticsSizes s{61, 3000};
  expect_axes_kept(*statistics_case(s, "drawn").graph);
  s.shaped = s.noise = s.banned = true;
  expect_axes_kept(*statistics_case(s, "shaped").graph);
  expect_axes_kept(*statistics_case({230, 151936}, "tiles").graph);
}

// A row whose ids are all banned gives zeros.
TEST(LowerStatistics, EverythingBanned) {
  auto c = statistics_case({5, 20, 2, true, true, true}, "all banned");
  for (uint8_t& flag : c.inputs.back().mutable_as<uint8_t>()) flag = 1;
  expect_same_lowered(c.graph, c.inputs, 1e-6, c.label);
}

// A sampled row does not sort either.
TEST(LowerStatistics, NothingIsSorted) {
  const auto c = statistics_case({16, 500, 3}, "names");
  const std::string text = lower(*c.graph)->dump();
  EXPECT_EQ(text.find("sort"), std::string::npos);
  EXPECT_EQ(text.find("top_k"), std::string::npos);
}

} // namespace
} // namespace dllm::pjrt
