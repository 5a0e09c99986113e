// Programs of several ranks: threads of this process that meet in collective operations. Runs under
// the thread sanitizer too.

#include "graph/ops.h"
#include "graph/passes.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_ranks.h"
#include "unit/graph/reference_evaluator.h"

namespace dllm::cpu {
namespace {

using graph::Axis;
using graph::AxisSet;
using graph::BufferRef;
using graph::Graph;
using graph::Layout;
using graph::Mesh;
using graph::Placement;
using graph::Value;
using test::RankThreads;

const AxisSet kData(Axis::data), kTensor(Axis::tensor);

// Whole numbers, different on every rank: sums are exact in any order.
Tensor whole_numbers(const Shape& shape, int64_t rank) {
  Tensor made(DType::f32, shape);
  auto values = made.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int64_t>(i) * 7 + rank * 31) % 101 - 50);
  return made;
}

TEST(Ranks, EveryCollectiveEqualsTheOracle) {
  for (const int64_t n : {2, 4}) {
    auto graph = std::make_shared<Graph>("collectives");
    const Value x = graph->input("x", {Shape{8, 4, 2}, DType::f32, kData});
    const Value i = graph->input("i", {Shape{4}, DType::i32, kData});
    std::vector<int64_t> next(static_cast<size_t>(n));
    for (size_t r = 0; r < next.size(); ++r) next[r] = static_cast<int64_t>((r + 1) % next.size());
    graph->output("sum", all_reduce(x, kData));
    graph->output("sum of integers", all_reduce(i, kData));
    graph->output("max", all_reduce_max(x, kData));
    for (const int64_t dim : {0, 1, 2}) {
      const std::string at = " " + std::to_string(dim);
      graph->output("gather" + at, all_gather(x, Axis::data, dim, n));
      graph->output("gather equal" + at, all_gather(x, Axis::data, dim, n, true));
      const Value wide = all_gather(x, Axis::data, dim, n);
      graph->output("scatter" + at, reduce_scatter(wide, Axis::data, dim, n));
      graph->output("own part" + at,
                    own_part(vary(all_reduce(wide, kData), kData), Axis::data, dim, n));
      for (const int64_t to : {0, 1, 2})
        graph->output("exchange" + at + std::to_string(to),
                      all_to_all(wide, Axis::data, dim, to, n));
    }
    graph->output("permute", permute(x, Axis::data, next));
    graph->output("index", graph::axis_index(*graph, Axis::data));
    graph->output("other index", graph::axis_index(*graph, Axis::expert));
    std::vector<Tensors> inputs;
    for (int64_t r = 0; r < n; ++r) {
      const auto k = static_cast<int32_t>(r);
      inputs.push_back({whole_numbers({8, 4, 2}, r),
                        Tensor::from(Shape{4}, std::vector<int32_t>{k, -k, 1 << k, 7})});
    }
    RankThreads ranks(n);
    const auto got = run_on_ranks(ranks, mesh_of(Axis::data, n), graph, inputs);
    const auto wanted = graph::test::evaluate_ranks(*graph, Axis::data, inputs);
    for (size_t r = 0; r < got.size(); ++r) {
      for (size_t o = 0; o < got[r].size(); ++o) {
        ASSERT_EQ(got[r][o].shape(), wanted[r][o].shape());
        EXPECT_EQ(largest_difference(got[r][o], wanted[r][o]), 0)
            << n << " " << r << " " << graph->outputs()[o].name;
      }
    }
    double counted = 0, sent = 0; // by the graph, by the ranks
    for (const auto& [name, exchange] :
         graph::count_exchanges(*graph::simplify(*graph), mesh_of(Axis::data, n)))
      counted += exchange.bytes;
    for (int64_t r = 0; r < n; ++r) sent += static_cast<double>(ranks.engine(r).i64("bytes_sent"));
    EXPECT_DOUBLE_EQ(sent, static_cast<double>(n) * counted);
  }
}

// Of two mesh axes each exchange keeps to its own groups.
TEST(Ranks, GroupsOfATwoAxisMesh) {
  auto graph = std::make_shared<Graph>("groups");
  const Value x = graph->input("x", {Shape{1}, DType::f32, kData.with(kTensor)});
  graph->output("data", all_reduce(x, kData));
  graph->output("tensor", all_reduce(x, kTensor));
  graph->output("both", all_reduce(x, kData.with(kTensor)));
  graph->output("gather", all_gather(x, Axis::data, 0, 2));
  graph->output("swap", permute(x, Axis::tensor, {1, 0}));
  RankThreads ranks(4);
  std::vector<Tensors> inputs;
  for (const float number : {1.0f, 10.0f, 100.0f, 1000.0f})
    inputs.push_back({Tensor::from(Shape{1}, std::vector<float>{number})});
  const auto got =
      run_on_ranks(ranks, Mesh().set(Axis::data, 2).set(Axis::tensor, 2), graph, inputs);
  // Rank = 2 * data + tensor.
  const std::vector<float> data{101, 1010, 101, 1010}, tensor{11, 11, 1100, 1100},
      swap{10, 1, 1000, 100};
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(floats(got[r][0])[0], data[r]);
    EXPECT_EQ(floats(got[r][1])[0], tensor[r]);
    EXPECT_EQ(floats(got[r][2])[0], 1111);
    EXPECT_EQ(floats(got[r][3]),
              (r % 2 == 0 ? std::vector<float>{1, 100} : std::vector<float>{10, 1000}));
    EXPECT_EQ(floats(got[r][4])[0], swap[r]);
  }
}

// Adds up over ranks, endlessly when the input is positive.
std::shared_ptr<Graph> summing(bool donates) {
  auto cond = std::make_shared<Graph>("any"), body = std::make_shared<Graph>("step");
  const Value c = cond->input("n", DType::f32, {});
  cond->output("go", greater(c, graph::scalar(*cond, 0)));
  const Value n = body->input("n", DType::f32, {});
  body->output("n", all_reduce(multiply(vary(n, kData), graph::scalar(*body, 0.5f)), kData));
  auto graph = std::make_shared<Graph>("summing");
  const Value x = graph->input("x", {Shape{}, DType::f32, kData}),
              p = graph->input("p", DType::f32, {4});
  const Value y = all_reduce(x, kData);
  const Value end = while_loop(cond, body, {y})[0];
  graph->output("n", end);
  graph->output("p", add(p, donates ? broadcast(end, {4}) : broadcast(y, {4})), donates ? "p" : "");
  return graph;
}

TEST(Ranks, AFailingRankEndsTheRunOfAll) {
  auto graph = std::make_shared<Graph>("failing");
  const Value x = graph->input("x", {Shape{2}, DType::f32, kData});
  graph->output("y", all_reduce(exp(x), kData));
  for (const int64_t n : {2, 4}) {
    RankThreads ranks(n, "finite");
    std::vector<std::shared_ptr<graph::Program>> programs;
    for (int64_t r = 0; r < n; ++r)
      programs.push_back(ranks.engine(r).compile(graph, {mesh_of(Axis::data, n), r}));
    const auto run = [&](float number) {
      return ranks.run([&](int64_t rank) {
        const float own = rank == 1 ? number : 0;
        const Tensor given = Tensor::from(Shape{2}, std::vector<float>{0, own});
        const auto made =
            programs[static_cast<size_t>(rank)]->run(upload_all(ranks.engine(rank), {given}));
        EXPECT_EQ(floats(made[0]->read())[0], static_cast<float>(n));
      });
    };
    const auto errors = run(1000); // exp overflows on rank 1
    EXPECT_EQ(errors[1].code(), Code::failed_precondition);
    EXPECT_EQ(errors[1].text().find("[exp] node"), 0u) << errors[1].text();
    for (int64_t r = 0; r < n; ++r) {
      if (r == 1) continue;
      const Error& error = errors[static_cast<size_t>(r)];
      EXPECT_EQ(error.code(), Code::failed_precondition);
      EXPECT_EQ(error.text(), "rank 1 failed: " + errors[1].text());
    }
    // The next run of all ranks works: it restarts the communicator.
    for (const Error& error : run(0)) EXPECT_EQ(error.code(), Code::ok) << error.text();
    for (const Error& error : run(1000)) EXPECT_EQ(error.code(), Code::failed_precondition);
    for (const Error& error : run(0)) EXPECT_EQ(error.code(), Code::ok) << error.text();
  }
}

// A failure after the last exchange leaves the ranks at different runs: going on would mix two
// steps.
TEST(Ranks, RanksThatFinishedDifferentRunsAreAnError) {
  auto graph = std::make_shared<Graph>("failing");
  const Value x = graph->input("x", {Shape{2}, DType::f32, kData});
  const Value total = all_reduce(x, kData);
  graph->output("y", multiply(exp(x), vary(total, kData)));
  RankThreads ranks(2, "finite");
  std::vector<std::shared_ptr<graph::Program>> programs;
  for (int64_t r = 0; r < 2; ++r)
    programs.push_back(ranks.engine(r).compile(graph, {mesh_of(Axis::data, 2), r}));
  const auto run = [&](int64_t rank, float number) {
    const Tensor given = Tensor::from(Shape{2}, std::vector<float>{0, number});
    programs[static_cast<size_t>(rank)]->run(upload_all(ranks.engine(rank), {given}));
  };
  const auto first =
      ranks.run([&](int64_t rank) { run(rank, rank == 1 ? 1000.0f : 0.0f); }); // exp overflows
  EXPECT_EQ(first[0].code(), Code::ok);
  EXPECT_EQ(first[1].code(), Code::failed_precondition);
  // The next exchange of rank 0 fails for the reason of rank 1; then the counts are compared.
  const auto second = ranks.run([&](int64_t rank) {
    if (rank == 1) return run(rank, 0);
    try {
      run(rank, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), "rank 1 failed: " + first[1].text());
    }
    run(rank, 0);
  });
  for (const Error& error : second)
    EXPECT_EQ(error.text(),
              "rank 0 has finished 1 runs, rank 1 has finished 0: a run failed on some ranks only");
}

// A wrong input is an error of the call, before any exchange; the others must get it as well.
TEST(Ranks, AWrongInputEndsTheRunOfAll) {
  auto graph = std::make_shared<Graph>("failing");
  graph->output("y", all_reduce(graph->input("x", {Shape{2}, DType::f32, kData}), kData));
  graph->output("z", graph->input("z", DType::f32, {2}));
  RankThreads ranks(2);
  const auto errors = ranks.run([&](int64_t rank) {
    auto& engine = ranks.engine(rank);
    const Placement place{mesh_of(Axis::data, 2), rank};
    const Layout layout = rank == 0 ? Layout().cut(Axis::data, 0) : Layout();
    const Tensor ones = Tensor::from(Shape{2}, std::vector<float>{1, 1});
    const std::vector<BufferRef> inputs{engine.upload(ones),
                                        engine.upload(ones, false, place, layout)};
    engine.compile(graph, place)->run(inputs);
  });
  EXPECT_EQ(errors[0].text(),
            "input z of graph failing is f32(2), the given array is a part with layout {data: 0}");
  EXPECT_EQ(errors[1].text(), "rank 0 failed: " + errors[0].text());
}

TEST(Ranks, ACancelledRankEndsTheRunOfAll) {
  for (const int64_t n : {2, 4}) {
    for (const bool waits : {false, true}) {
      RankThreads ranks(n);
      Task task;
      // Rank 1 never ends by itself, or waits in an exchange that rank 0 does not come to.
      const auto errors = ranks.run([&](int64_t rank) {
        auto& engine = ranks.engine(rank);
        const auto program = engine.compile(summing(false), {mesh_of(Axis::data, n), rank});
        const auto inputs = upload_all(engine, {Tensor::scalar(1.0f), random_tensor({4}, 1)});
        if (rank == 0) {
          if (!waits) program->run(inputs);
          std::this_thread::sleep_for(std::chrono::milliseconds(waits ? 30 : 0));
          if (waits) task.cancel();
          return;
        }
        if (rank == 1 && !waits) task.set_deadline(30);
        program->run(inputs, rank == 1 ? &task : nullptr);
      });
      const Code code = waits ? Code::cancelled : Code::deadline_exceeded;
      for (size_t r = waits ? 1 : 0; r < errors.size(); ++r) {
        EXPECT_EQ(errors[r].code(), code) << r << " " << errors[r].text();
        EXPECT_EQ(errors[r].text().find("rank 1 failed: ") == 0, r != 1) << errors[r].text();
      }
    }
  }
}

// Steps of a training run: p' = p + something summed. A cancel of one rank loses no rank's state,
// whenever it comes.
TEST(Ranks, ACancelBeforeOverwriteStopsAllOrNone) {
  auto graph = std::make_shared<Graph>("step");
  const Value x = graph->input("x", {Shape{3}, DType::f32, kData}),
              p = graph->input("p", DType::f32, {3});
  const Value g = all_reduce(exp(x), kData);
  const Value stepped = add(p, g);
  graph->output("p", stepped, "p");
  graph->output("norm", all_reduce(vary(sum(multiply(stepped, stepped), {0}), kData), kData));
  const Tensor zeros(DType::f32, {3});
  int stopped = 0, finished = 0;
  for (int64_t check = 1; check <= 12; ++check) {
    RankThreads ranks(2);
    std::vector<std::vector<BufferRef>> state(2);
    const auto errors = ranks.run([&](int64_t rank) {
      auto& engine = ranks.engine(rank);
      auto& own = state[static_cast<size_t>(rank)];
      own = upload_all(engine, {zeros, zeros});
      const auto program = engine.compile(graph, {mesh_of(Axis::data, 2), rank});
      Task task;
      if (rank == 1) task.cancel_at_check(check);
      own[1] = program->run(own, &task, graph::StopRule::before_overwrite)[0];
    });
    EXPECT_EQ(errors[0].code(), errors[1].code()) << check;
    const bool ok = errors[0].code() == Code::ok;
    (ok ? finished : stopped) += 1;
    for (const auto& own : state) EXPECT_EQ(floats(own[1]->read())[0], ok ? 2.0f : 0.0f) << check;
  }
  EXPECT_GT(stopped, 0);
  EXPECT_GT(finished, 0);
}

TEST(Ranks, DifferentProgramsAreAnError) {
  RankThreads ranks(2);
  const auto errors = ranks.run([&](int64_t rank) {
    auto graph = std::make_shared<Graph>("own");
    const Value x = graph->input("x", {Shape{2}, DType::f32, kData});
    graph->output("y", rank == 0 ? all_reduce(x, kData) : all_gather(x, Axis::data, 0, 2, true));
    auto& engine = ranks.engine(rank);
    engine.compile(graph, {mesh_of(Axis::data, 2), rank})
        ->run(upload_all(engine, {random_tensor({2}, 1)}));
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), Code::failed_precondition);
    EXPECT_NE(error.text().find("ranks disagree"), std::string::npos) << error.text();
  }
}

TEST(Ranks, AnEngineRefusesAMeshItCannotRun) {
  auto graph = std::make_shared<Graph>("sum");
  graph->output("y", all_reduce(graph->input("x", {Shape{2}, DType::f32, kData}), kData));
  const auto plain = test_engine();
  const Placement place{mesh_of(Axis::data, 2), 1};
  EXPECT_FALSE(plain->runs(place));
  EXPECT_TRUE(plain->runs({}));
  Error error = thrown_by([&] { plain->compile(graph, place); });
  EXPECT_EQ(error.code(), Code::unimplemented);
  EXPECT_EQ(error.text(),
            "this cpu engine is rank 0 of 1 and cannot be rank 1 of a mesh of 2 ranks (data)");
  EXPECT_EQ(
      thrown_by([&] { plain->upload(Tensor(DType::f32, {2}), false, place, Layout()); }).code(),
      Code::unimplemented);
  EXPECT_EQ(thrown_by([&] {
              plain->upload_weight(Tensor(DType::f32, {2, 2}), true, place, Layout());
            }).code(),
            Code::unimplemented);
  EXPECT_EQ(thrown_by([&] { plain->compile(graph, {place.mesh, 2}); }).code(), Code::out_of_range);

  RankThreads ranks(2);
  EXPECT_EQ(ranks.engine(1).i64("rank"), 1);
  EXPECT_EQ(ranks.engine(1).i64("ranks"), 2);
  EXPECT_TRUE(ranks.engine(1).runs(place));
  EXPECT_FALSE(ranks.engine(0).runs(place));
  EXPECT_FALSE(ranks.engine(1).runs({mesh_of(Axis::data, 4), 1}));
  // A graph that was made for other ranks along the axis.
  auto gathered = std::make_shared<Graph>("gather");
  gathered->output(
      "y", all_gather(gathered->input("x", {Shape{2}, DType::f32, kData}), Axis::data, 0, 4));
  error = thrown_by([&] { ranks.engine(1).compile(gathered, place); });
  EXPECT_EQ(error.text(), "[all_gather] in graph gather is for 4 ranks along data, the mesh has 2");
  // A program of one rank runs on one of two ranks alone.
  EXPECT_EQ(floats(run_graph(ranks.engine(1), graph,
                             {Tensor::from(Shape{2}, std::vector<float>{3, 4})})[0])[1],
            4);
}

} // namespace
} // namespace dllm::cpu
