// A row computes the same bits alone and inside any batch: a whole transformer layer with its head.

#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"
#include "unit/cpu/run_graph.h"

#include <cmath>
#include <cstring>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

constexpr int64_t kSeq = 37, kHidden = 48, kHeads = 3, kVocab = 101;

std::shared_ptr<Graph> layer(int64_t batch) {
  auto graph = std::make_shared<Graph>("layer");
  const Value table = graph->input("table", {{kVocab, kHidden}, DType::f32, {}}, true);
  const Value up = graph->input("up", {{2 * kHidden, kHidden}, DType::f32, {}}, true);
  const Value down = graph->input("down", {{kHidden, 2 * kHidden}, DType::f32, {}}, true);
  const Value norm = graph->input("norm", DType::f32, {kHidden});
  const Value inv_freq = graph->input("inv_freq", DType::f32, {kHidden / kHeads / 2});
  const Value ids = graph->input("ids", DType::i32, {batch, kSeq});
  const Value begin = graph->input("begin", DType::i32, {batch}),
              end = graph->input("end", DType::i32, {batch});

  Value h = take(table, ids);
  const Value x = reshape(rms_norm(h, norm, 1e-5f), {batch, kSeq, kHeads, kHidden / kHeads});
  const Value q = rope(x, broadcast(iota(*graph, {kSeq}, DType::i32, 0), {batch, kSeq}), inv_freq);
  graph::Mask mask = graph::Mask::causal();
  mask.and_key_range(begin, end);
  h = add(h, reshape(attention(q, q, x, mask, {.scale = 0.25f}), {batch, kSeq, kHidden}));
  h = add(h, linear(graph::gelu(linear(h, up), true), down));
  graph->output("log_probs", log_softmax(linear(layer_norm(h, norm, {}, 1e-5f), table), -1));
  return graph;
}

TEST(Invariance, ARowAloneEqualsARowInABatch) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 5 * kSeq; ++i) ids.push_back(i * 31 % kVocab);
  const std::vector<int32_t> begins{0, 3, 0, 10, 1}, ends{37, 37, 20, 30, 2};
  std::vector<Tensor> inputs{random_tensor({kVocab, kHidden}, 1),
                             random_tensor({2 * kHidden, kHidden}, 2, 0.2f),
                             random_tensor({kHidden, 2 * kHidden}, 3, 0.2f),
                             random_tensor({kHidden}, 4), random_tensor({kHidden / kHeads / 2}, 5)};
  const auto with_rows = [&](size_t first, size_t count) {
    std::vector<Tensor> all = inputs;
    const auto rows = static_cast<int64_t>(count);
    const auto from = [&](const std::vector<int32_t>& values, int64_t width, Shape shape) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first) * width;
      all.push_back(Tensor::from<int32_t>(std::move(shape),
                                          std::vector<int32_t>(begin, begin + rows * width)));
    };
    from(ids, kSeq, {rows, kSeq});
    from(begins, 1, {rows});
    from(ends, 1, {rows});
    return all;
  };
  const Tensor batch = run_graph(*test_engine(1), layer(5), with_rows(0, 5))[0];
  for_each_simd_target([&](const char* target) {
    auto engine = test_engine(2);
    auto alone = engine->compile(layer(1));
    auto pair = engine->compile(layer(2));
    for (size_t row = 0; row < 5; ++row) {
      const Tensor one = alone->run(upload_all(*engine, with_rows(row, 1)))[0]->read();
      EXPECT_TRUE(
          same_bits(one, batch.rows(static_cast<int64_t>(row), static_cast<int64_t>(row) + 1)))
          << target << " row " << row;
    }
    const Tensor two = pair->run(upload_all(*engine, with_rows(2, 2)))[0]->read();
    EXPECT_TRUE(same_bits(two, batch.rows(2, 4))) << target;
  });
}

// Routed rows meet other neighbours in every batch: the group of an expert has another size.
TEST(Invariance, ARoutedRowAloneEqualsARowInABatch) {
  constexpr int64_t kRows = 23, kChoices = 3, kExperts = 5;
  const auto routed = [](int64_t rows) {
    auto graph = std::make_shared<Graph>("experts");
    const Value x = graph->input("x", DType::f32, {rows, kHidden});
    const Value experts = graph->input("experts", DType::i32, {rows, kChoices});
    const Value up = graph->input("up", {{kExperts, kSeq, kHidden}, DType::f32, {}}, true);
    const Value down = graph->input("down", {{kExperts, kHidden, kSeq}, DType::f32, {}}, true);
    const Value inner = reshape(expert_linear(x, experts, up), {rows * kChoices, kSeq});
    graph->output("y", expert_linear(inner, reshape(experts, {rows * kChoices, 1}), down));
    return graph;
  };
  const Tensor x = random_tensor({kRows, kHidden}, 1);
  const Tensor up = random_tensor({kExperts, kSeq, kHidden}, 2, 0.2f),
               down = random_tensor({kExperts, kHidden, kSeq}, 3, 0.2f);
  Tensor experts(DType::i32, {kRows, kChoices});
  for (int64_t i = 0; i < experts.count(); ++i)
    experts.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>((i * i + i / 4) % kExperts);
  const Tensor all = run_graph(*test_engine(1), routed(kRows), {x, experts, up, down})[0];
  for_each_simd_target([&](const char* target) {
    for (int64_t row = 0; row < kRows; ++row) {
      const Tensor one = run_graph(*test_engine(2), routed(1),
                                   {x.rows(row, row + 1), experts.rows(row, row + 1), up, down})[0];
      EXPECT_TRUE(same_bits(one, all.rows(row * kChoices, (row + 1) * kChoices)))
          << target << " row " << row;
    }
  });
}

} // namespace
} // namespace dllm::cpu
