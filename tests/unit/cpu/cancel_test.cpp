// How much work lies between two checks of the task inside one kernel, counted, not timed; and that
// a run which is cancelled anywhere leaves its donated inputs as they were.

#include "graph/engine.h"
#include "graph/ops.h"
#include "unit/cancel.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

#include <functional>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

// About 5 ms of a core that does 50e9 operations a second.
constexpr double kMostFlopsBetweenChecks = 2.5e8;

struct HeavyCase {
  std::string name;
  std::vector<Tensor> inputs;
  std::function<std::vector<Value>(Graph&, const std::vector<Value>&)> build;
};

Tensor targets(int64_t rows, int32_t vocab) {
  std::vector<int32_t> made(static_cast<size_t>(rows));
  for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<int32_t>(i * 7919) % vocab;
  return Tensor::from(Shape{rows}, made);
}

std::vector<HeavyCase> heavy() {
  using In = const std::vector<Value>&;
  const Tensor x = random_tensor({256, 512}, 1), w = random_tensor({2048, 512}, 2);
  const Tensor dy = random_tensor({256, 2048}, 3), head = random_tensor({1, 1024, 2, 64}, 4);
  const auto loss = [](Graph&, In v) {
    return graph::linear_cross_entropy(v[0], v[1], {}, {}, v[2], {});
  };
  return {
      {"linear", {x, w}, [](Graph&, In v) { return std::vector{graph::linear(v[0], v[1])}; }},
      {"dot", {dy, w}, [](Graph&, In v) { return std::vector{graph::dot(v[0], v[1])}; }},
      {"attention",
       {head, head, head},
       [](Graph&, In v) {
         graph::AttentionOptions options;
         options.scale = 0.125f;
         return std::vector{graph::attention(v[0], v[1], v[2], graph::Mask(), options)};
       }},
      {"cross entropy",
       {x, w, targets(256, 2048)},
       [loss](Graph& g, In v) { return std::vector{loss(g, v)}; }},
      {"gradients of cross entropy",
       {x, w, targets(256, 2048)},
       [loss](Graph& g, In v) {
         return graph::gradients(graph::sum(loss(g, v), {0}), {v[0], v[1]});
       }},
      {"gradients of attention",
       {head, head, head},
       [](Graph&, In v) {
         graph::AttentionOptions options;
         options.scale = 0.125f;
         const Value y = graph::attention(v[0], v[1], v[2], graph::Mask(), options);
         return graph::gradients(graph::sum(y, {0, 1, 2, 3}), {v[0], v[1], v[2]});
       }},
  };
}

class HeavyKernel : public ::testing::TestWithParam<int64_t> {};

TEST_P(HeavyKernel, ChecksTheTaskEveryFewMilliseconds) {
  const int64_t threads = GetParam();
  for (const HeavyCase& one : heavy()) {
    auto engine = test_engine(threads);
    auto graph = std::make_shared<Graph>(one.name);
    std::vector<Value> values;
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      values.push_back(
          graph->input("x" + std::to_string(i), one.inputs[i].dtype(), one.inputs[i].shape()));
    }
    const std::vector<Value> outputs = one.build(*graph, values);
    for (size_t i = 0; i < outputs.size(); ++i) graph->output("y" + std::to_string(i), outputs[i]);
    auto program = engine->compile(graph);
    const auto inputs = upload_all(*engine, one.inputs);
    const auto run = [&](const Task* task) { program->run(inputs, task); };
    const double flops = program->plan().flops;
    const int64_t checks = test::count_checks(run);
    EXPECT_GE(flops, 2 * kMostFlopsBetweenChecks) << one.name << ": too small to show anything";
    EXPECT_GE(static_cast<double>(checks), flops / kMostFlopsBetweenChecks)
        << one.name << " on " << threads << " threads: " << flops << " operations";
    const auto first = program->run(inputs);
    EXPECT_LE(test::cancel_at(checks / 2, run), threads) << one.name;
    const auto again = program->run(inputs);
    for (size_t i = 0; i < again.size(); ++i)
      EXPECT_TRUE(same_bits(again[i]->read(), first[i]->read())) << one.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, HeavyKernel, ::testing::Values(1, 2),
                         [](const auto& info) { return std::to_string(info.param); });

// y = x + 1 in the place of x, behind a long product of another input.
TEST(CancelledRun, KeepsDonatedInputsUntilTheOverwriteBegins) {
  auto engine = test_engine(2);
  auto graph = std::make_shared<Graph>("update");
  const Value x = graph->input("x", DType::f32, {64, 64}),
              a = graph->input("a", DType::f32, {64, 64});
  Value product = a;
  for (int i = 0; i < 4; ++i) product = graph::linear(product, a);
  graph->output("x", graph::add(x, product), "x");
  auto program = engine->compile(graph);
  const Tensor before = random_tensor({64, 64}, 1), factor = random_tensor({64, 64}, 2, 0.1f);
  const auto once = [&](const Task* task, graph::BufferRef& place) {
    std::vector<graph::BufferRef> inputs{std::move(place), engine->upload(factor)};
    try {
      place = program->run(inputs, task, graph::StopRule::before_overwrite)[0];
    } catch (...) {
      place = std::move(inputs[0]);
      throw;
    }
  };
  graph::BufferRef whole = engine->upload(before);
  const int64_t checks = test::count_checks([&](const Task* task) { once(task, whole); });
  graph::BufferRef cut = engine->upload(before);
  for (int64_t at = 1; at <= checks; ++at) {
    test::cancel_at(at, [&](const Task* task) { once(task, cut); });
    ASSERT_TRUE(same_bits(cut->read().clone(), before)) << "check " << at << " of " << checks;
  }
  once(nullptr, cut);
  EXPECT_TRUE(same_bits(cut->read(), whole->read()));
}

// x is written in its place, then long products follow; z has another holder, who may read it
// meanwhile.
TEST(FailedRun, KeepsADonatedInputWithAnotherHolder) {
  auto engine = test_engine(1);
  auto graph = std::make_shared<Graph>("update");
  const Value x = graph->input("x", DType::f32, {64, 64}),
              a = graph->input("a", DType::f32, {64, 64}),
              z = graph->input("z", DType::f32, {64, 64});
  const Value moved = graph::add(x, a);
  Value product = moved;
  for (int i = 0; i < 4; ++i) product = graph::linear(product, a);
  graph->output("x", moved, "x");
  graph->output("z", graph::add(z, product), "z");
  auto program = engine->compile(graph);
  const Tensor before = random_tensor({64, 64}, 1), factor = random_tensor({64, 64}, 2, 0.1f);
  const graph::BufferRef held = engine->upload(before);
  bool lost = false;
  const auto once = [&](const Task* task) {
    const std::vector<graph::BufferRef> inputs{engine->upload(before), engine->upload(factor),
                                               held};
    try {
      program->run(inputs, task);
    } catch (const graph::StateLost&) {
      lost = true;
      throw;
    }
  };
  const int64_t checks = test::count_checks(once);
  for (int64_t at = 1; at <= checks; ++at) {
    test::cancel_at(at, once);
    ASSERT_TRUE(same_bits(held->read(), before)) << "check " << at << " of " << checks;
  }
  EXPECT_TRUE(lost);
}

} // namespace
} // namespace dllm::cpu
