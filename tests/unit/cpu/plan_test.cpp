// The memory plan: the peak is known before the run, results lie over operands, donated inputs are
// written in place.

#include "cpu/plan.h"

#include "cpu/storage.h"
#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

#include <cmath>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

TEST(Arena, PiecesThatLiveTogetherLieApart) {
  uint32_t state = 7;
  const auto next = [&](uint32_t limit) {
    return (state = state * 1664525u + 1013904223u) >> 8 & 0xFFFFu % limit;
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Piece> pieces;
    for (int i = 0; i < 60; ++i) {
      const auto begin = static_cast<int32_t>(next(40));
      pieces.push_back(
          {static_cast<int64_t>(next(5000)), begin, begin + static_cast<int32_t>(next(9)), -1});
    }
    const int64_t size = place_pieces(pieces);
    int64_t most = 0;
    for (int32_t time = 0; time < 50; ++time) {
      int64_t alive = 0;
      for (const Piece& p : pieces)
        alive += p.begin <= time && time <= p.end ? (p.bytes + 63) / 64 * 64 : 0;
      most = std::max(most, alive);
    }
    EXPECT_GE(size, most);
    for (size_t a = 0; a < pieces.size(); ++a) {
      EXPECT_EQ(pieces[a].offset % 64, 0);
      EXPECT_LE(pieces[a].offset + pieces[a].bytes, size);
      for (size_t b = a + 1; b < pieces.size(); ++b) {
        const bool together = pieces[a].begin <= pieces[b].end && pieces[b].begin <= pieces[a].end;
        const bool apart = pieces[a].offset + pieces[a].bytes <= pieces[b].offset ||
                           pieces[b].offset + pieces[b].bytes <= pieces[a].offset;
        EXPECT_TRUE(!together || apart) << a << " and " << b;
      }
    }
  }
}

TEST(Plan, AChainNeedsOneBuffer) {
  auto graph = std::make_shared<Graph>("chain");
  Value x = graph->input("x", DType::f32, {1000});
  for (int i = 0; i < 10; ++i) x = tanh(add(x, exp(x)));
  graph->output("y", x);
  auto engine = test_engine();
  const auto program = engine->compile(graph);
  EXPECT_LE(program->plan().arena_bytes, 2 * 4032);
  EXPECT_EQ(program->plan().output_bytes, 4000);
  EXPECT_EQ(program->plan().input_bytes, 4000);
}

TEST(Plan, BroadcastsTakeNoMemory) {
  auto graph = std::make_shared<Graph>("bias");
  const Value x = graph->input("x", DType::f32, {100, 64}), b = graph->input("b", DType::f32, {64});
  graph->output("y", multiply(add(x, b), graph::scalar(*graph, 0.5f)));
  EXPECT_EQ(test_engine()->compile(graph)->plan().arena_bytes, 0);
}

TEST(Plan, PeakIsWhatTheRunAllocates) {
  auto engine = test_engine(2);
  auto graph = std::make_shared<Graph>("mixed");
  const Value x = graph->input("x", DType::f32, {40, 48});
  const Value w = graph->input("w", {{64, 48}, DType::f32, {}}, true);
  const Value h = tanh(linear(x, w));
  graph->output("h", h);
  graph->output("top", top_k(add(h, graph::scalar(*graph, 2)), 5).values);
  graph->output("sum", sum(multiply(h, h), {0, 1}));
  const auto program = engine->compile(graph);
  std::vector<graph::BufferRef> inputs =
      upload_all(*engine, {random_tensor({40, 48}, 1), random_tensor({64, 48}, 2)});
  const int64_t uploaded = engine->i64("memory_used");
  const auto outputs = program->run(inputs);
  const graph::PlanReport& plan = program->plan();
  EXPECT_EQ(plan.peak_bytes,
            plan.input_bytes + plan.output_bytes + plan.constant_bytes + plan.arena_bytes);
  // Constants live in the graph. The weight is there in both its forms, of which the program wants
  // the packed one.
  const int64_t weight_plain = 64 * 48 * 4;
  EXPECT_EQ(engine->i64("memory_peak"), plan.peak_bytes - plan.constant_bytes + weight_plain);
  EXPECT_EQ(uploaded, 40 * 48 * 4 + weight_plain);
}

TEST(Plan, DonatedInputsAreWrittenInPlace) {
  auto engine = test_engine();
  auto graph = std::make_shared<Graph>("step");
  const Value p = graph->input("p", DType::f32, {500}), m = graph->input("m", DType::f32, {500});
  const Value g = graph->input("g", DType::f32, {500});
  const Value moved = add(multiply(m, graph::scalar(*graph, 0.9f)), g);
  graph->output("p", subtract(p, multiply(moved, graph::scalar(*graph, 0.1f))), "p");
  graph->output("m", moved, "m");
  const auto program = engine->compile(graph);
  EXPECT_EQ(program->plan().output_bytes, 0);
  EXPECT_LE(program->plan().arena_bytes, 2048);

  const Tensor numbers[] = {random_tensor({500}, 1), random_tensor({500}, 2),
                            random_tensor({500}, 3)};
  std::vector<graph::BufferRef> state = upload_all(*engine, {numbers[0], numbers[1], numbers[2]});
  const int64_t used = engine->i64("memory_used");
  const std::byte* storage = state[0]->read().bytes();
  graph::BufferRef gradient = state[2];
  const auto made = program->run(state);
  EXPECT_EQ(made[0]->read().bytes(), storage);
  engine->trim();
  EXPECT_EQ(engine->i64("memory_used"), used);
  EXPECT_EQ(thrown_by([&] { state[0]->read(); }).code(), Code::failed_precondition);
  for (size_t i = 0; i < 500; ++i) {
    const float moved_i = numbers[1].as<float>()[i] * 0.9f + numbers[2].as<float>()[i];
    EXPECT_EQ(made[1]->read().as<float>()[i], moved_i);
    EXPECT_EQ(made[0]->read().as<float>()[i], numbers[0].as<float>()[i] - moved_i * 0.1f);
  }
}

TEST(Plan, ADonatedBufferWithAnotherHolderIsCopied) {
  auto engine = test_engine();
  auto graph = std::make_shared<Graph>("step");
  const Value p = graph->input("p", DType::f32, {50});
  graph->output("p", add(p, p), "p");
  const auto program = engine->compile(graph);
  const Tensor numbers = random_tensor({50}, 1);
  const graph::BufferRef held = engine->upload(numbers);
  const auto made = program->run({{held}});
  EXPECT_TRUE(same_bits(held->read(), numbers));
  EXPECT_EQ(made[0]->read().as<float>()[7], 2 * numbers.as<float>()[7]);
}

// Crossed donations cannot both be in place; the numbers must be right all the same.
TEST(Plan, SwappedDonationsKeepTheirNumbers) {
  auto engine = test_engine();
  auto graph = std::make_shared<Graph>("swap");
  const Value a = graph->input("a", DType::f32, {5}), b = graph->input("b", DType::f32, {5});
  graph->output("a", b, "a");
  graph->output("b", add(a, b), "b");
  const Tensor x = random_tensor({5}, 1), y = random_tensor({5}, 2);
  const auto made = run_graph(*engine, graph, {x, y});
  EXPECT_TRUE(same_bits(made[0], y));
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(made[1].as<float>()[i], x.as<float>()[i] + y.as<float>()[i]);
}

TEST(Plan, OutputsMayBeInputsConstantsOrTheSameTwice) {
  auto engine = test_engine();
  auto graph = std::make_shared<Graph>("odd");
  const Value x = graph->input("x", DType::f32, {2, 3});
  const Value y = exp(x);
  graph->output("x", x);
  graph->output("view", reshape(x, {6}));
  graph->output("y", y);
  graph->output("again", reshape(y, {3, 2}));
  graph->output("brief", reshape(y, {3, 2}), "", true);
  const Value z = tanh(x);
  graph->output("z", z, "", true);
  graph->output("z again", z, "", true);
  graph->output("lasting z", z);
  graph->output("c", graph::scalar(*graph, 4.0f));
  const Tensor numbers = random_tensor({2, 3}, 1);
  const auto made = run_graph(*engine, graph, {numbers});
  EXPECT_EQ(floats(made[0]), floats(numbers));
  EXPECT_EQ(floats(made[1]), floats(numbers));
  for (size_t o : {3, 4}) EXPECT_EQ(floats(made[o]), floats(made[2]));
  for (size_t o : {6, 7}) EXPECT_EQ(floats(made[o]), floats(made[5]));
  EXPECT_NEAR(made[5].as<float>()[1], std::tanh(numbers.as<float>()[1]), 1e-6);
  EXPECT_EQ(made[8].as<float>()[0], 4.0f);
}

// Random graphs: the planned run equals one in which every value has storage of its own (each is an
// output).
TEST(Plan, SharingStorageChangesNoNumber) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    uint32_t state = seed;
    const auto next = [&](size_t limit) {
      return ((state = state * 1664525u + 1013904223u) >> 10) % limit;
    };
    auto build = [&](bool all) {
      state = seed;
      auto graph = std::make_shared<Graph>("random");
      std::vector<Value> values{graph->input("a", DType::f32, {6, 5}),
                                graph->input("b", DType::f32, {6, 5}),
                                graph->input("c", DType::f32, {5})};
      for (int i = 0; i < 40; ++i) {
        const Value x = values[next(values.size())], y = values[next(values.size())];
        const bool matrix = x.rank() == 2;
        switch (next(6)) {
        case 0: values.push_back(add(x, y)); break;
        case 1: values.push_back(subtract(multiply(x, y), tanh(x))); break;
        case 2:
          values.push_back(matrix ? reshape(transpose(reshape(x, {5, 6}), {1, 0}), {6, 5})
                                  : reverse(x, 0));
          break;
        case 3: values.push_back(matrix ? sum(x, {0}) : maximum(x, values[2])); break;
        case 4: values.push_back(reverse(x, matrix ? 1 : 0)); break;
        default: values.push_back(logistic(x)); break;
        }
      }
      for (size_t i = 0; i < values.size(); ++i) {
        const bool last = i + 3 >= values.size();
        if (!last && !(all && i >= 3)) continue;
        const bool donates = i + 1 == values.size() && !all && values[i].rank() == 2;
        graph->output("v" + std::to_string(i), values[i], donates ? "a" : "", !all && i % 2 == 0);
      }
      return graph;
    };
    auto engine = test_engine();
    const std::vector<Tensor> inputs{random_tensor({6, 5}, seed),
                                     random_tensor({6, 5}, seed + 1000),
                                     random_tensor({5}, seed + 2000)};
    const auto planned = run_graph(*engine, build(false), inputs);
    const auto separate = run_graph(*engine, build(true), inputs);
    for (size_t i = 0; i < planned.size(); ++i) {
      EXPECT_TRUE(same_bits(planned[i], separate[separate.size() - planned.size() + i]))
          << "seed " << seed << ", " << i;
    }
  }
}

// This engine is one rank: what would need another is refused when it is compiled, not answered
// with this rank's own numbers.
TEST(Plan, CollectivesOverRanksAreRefused) {
  using graph::Axis;
  const graph::AxisSet data(Axis::data);
  const auto engine = test_engine();
  const auto refused = [&](const char* what, const auto& build) {
    auto graph = std::make_shared<Graph>("exchange");
    const Value x = graph::vary(graph->input("x", DType::f32, {4, 6}), data);
    graph->output("y", graph::all_reduce(build(x), data));
    const Error error = thrown_by([&] { engine->compile(graph); });
    EXPECT_EQ(error.code(), Code::unimplemented);
    EXPECT_EQ(error.text(),
              std::string(what) + " over 2 ranks in graph exchange: the cpu engine has one");
  };
  refused("[all_gather]", [](Value x) { return graph::all_gather(x, Axis::data, 0, 2); });
  refused("[reduce_scatter]", [](Value x) { return graph::reduce_scatter(x, Axis::data, 0, 2); });
  refused("[all_to_all]", [](Value x) { return graph::all_to_all(x, Axis::data, 0, 1, 2); });
  refused("[permute]", [](Value x) { return graph::permute(x, Axis::data, {1, 0}); });
}

} // namespace
} // namespace dllm::cpu
