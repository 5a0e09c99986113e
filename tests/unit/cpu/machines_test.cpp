// The same bits on every machine: hashes of f32 results, for every instruction set.

#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"
#include "unit/cpu/run_graph.h"

#include <algorithm>
#include <cstdint>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

// FNV-1a of 64 bits over the bytes.
uint64_t hash_of(const Tensor& tensor) {
  uint64_t hash = 0xcbf29ce484222325;
  for (int64_t i = 0; i < tensor.byte_size(); ++i)
    hash = (hash ^ std::to_integer<uint64_t>(tensor.bytes()[i])) * 0x100000001b3;
  return hash;
}

uint64_t product(int64_t rows, int64_t inner, int64_t columns) {
  auto graph = std::make_shared<Graph>("product");
  const Value x = graph->input("x", DType::f32, {rows, inner});
  const Value weight = graph->input("weight", {{columns, inner}, DType::f32, {}}, true);
  graph->output("y", linear(x, weight));
  return hash_of(
      run_graph(*test_engine(2), graph,
                {random_tensor({rows, inner}, 1), random_tensor({columns, inner}, 2)})[0]);
}

TEST(Machines, Products) {
  for_each_simd_target([](const char* target) {
    EXPECT_EQ(product(1, 64, 48), 0xfafbc61fccad0403) << target;
    EXPECT_EQ(product(7, 333, 101), 0x15fd2e06e37cdf10) << target;
    EXPECT_EQ(product(33, 1024, 130), 0x48d1c76b2bc63e75) << target;
  });
}

constexpr int64_t kSeq = 24, kHidden = 32, kHeads = 2, kVocab = 61;
constexpr int32_t kMask = 0;

// One layer over all positions, with the nonlinear parts that a model has.
std::shared_ptr<Graph> denoiser() {
  auto graph = std::make_shared<Graph>("denoiser");
  const Value table = graph->input("table", {{kVocab, kHidden}, DType::f32, {}}, true);
  const Value up = graph->input("up", {{2 * kHidden, kHidden}, DType::f32, {}}, true);
  const Value down = graph->input("down", {{kHidden, 2 * kHidden}, DType::f32, {}}, true);
  const Value norm = graph->input("norm", DType::f32, {kHidden});
  const Value inv_freq = graph->input("inv_freq", DType::f32, {kHidden / kHeads / 2});
  const Value ids = graph->input("ids", DType::i32, {1, kSeq});
  Value h = take(table, ids);
  const Value x = reshape(rms_norm(h, norm, 1e-5f), {1, kSeq, kHeads, kHidden / kHeads});
  const Value q = rope(x, broadcast(iota(*graph, {kSeq}, DType::i32, 0), {1, kSeq}), inv_freq);
  h = add(h,
          reshape(attention(q, q, x, graph::Mask::full(), {.scale = 0.25f}), {1, kSeq, kHidden}));
  h = add(h, linear(graph::gelu(linear(h, up), true), down));
  graph->output("log_probs", log_softmax(linear(layer_norm(h, norm, {}, 1e-5f), table), -1));
  return graph;
}

// Each step decides the open position with the most probable token, as policy low_confidence
// without temperature.
TEST(Machines, TinyDecode) {
  const std::vector<Tensor> weights{
      random_tensor({kVocab, kHidden}, 1), random_tensor({2 * kHidden, kHidden}, 2, 0.2f),
      random_tensor({kHidden, 2 * kHidden}, 3, 0.2f), random_tensor({kHidden}, 4),
      random_tensor({kHidden / kHeads / 2}, 5)};
  for_each_simd_target([&](const char* target) {
    auto engine = test_engine(2);
    auto compiled = engine->compile(denoiser());
    std::vector<int32_t> ids(kSeq, kMask);
    ids[0] = 7;
    ids[1] = 11;
    Tensor log_probs;
    for (int64_t open = kSeq - 2; open > 0; --open) {
      std::vector<Tensor> inputs = weights;
      inputs.push_back(Tensor::from<int32_t>({1, kSeq}, ids));
      log_probs = compiled->run(upload_all(*engine, inputs))[0]->read();
      const std::span<const float> values = log_probs.as<float>();
      float best = -1e30f;
      int64_t at = 0;
      for (int64_t i = 0; i < kSeq * kVocab; ++i) {
        const bool wanted = ids[static_cast<size_t>(i / kVocab)] == kMask && i % kVocab != kMask;
        if (!wanted || values[static_cast<size_t>(i)] <= best) continue;
        best = values[static_cast<size_t>(i)];
        at = i;
      }
      ids[static_cast<size_t>(at / kVocab)] = static_cast<int32_t>(at % kVocab);
    }
    EXPECT_EQ(hash_of(Tensor::from<int32_t>({kSeq}, ids)), 0xcdf5158087048649) << target;
    EXPECT_EQ(hash_of(log_probs), 0x656e9b97b65a6a47) << target;
  });
}

} // namespace
} // namespace dllm::cpu
