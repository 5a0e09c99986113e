// Programs of several ranks: threads of this process that meet in collective operations. Runs under the
// thread sanitizer too.

#include "unit/thread_ranks.h"

#include "graph/gradients.h"
#include "graph/ops.h"
#include "unit/cpu/run_graph.h"
#include "unit/cpu/run_kernel.h"
#include "unit/graph/reference_evaluator.h"

#include <cmath>

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

using Tensors = std::vector<Tensor>;
const AxisSet kData(Axis::data), kTensor(Axis::tensor), kFsdp(Axis::fsdp);

// Compiles and runs `graph` on every rank; answers with the results by rank.
std::vector<Tensors> run_on_ranks(RankThreads& ranks, const Mesh& mesh, const std::shared_ptr<const Graph>& graph,
                                  const std::vector<Tensors>& inputs) {
  std::vector<Tensors> results(inputs.size());
  const auto errors = ranks.run([&](int64_t rank) {
    auto& engine = ranks.engine(rank);
    const auto program = engine.compile(graph, Placement{mesh, rank});
    const auto at = static_cast<size_t>(rank);
    results[at] = read_all(program->run(upload_all(engine, inputs[at])));
  });
  for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
  return results;
}

Mesh mesh_of(Axis axis, int64_t ranks) { return Mesh().set(axis, ranks); }

// Whole numbers, different on every rank: sums are exact in any order.
Tensor whole_numbers(const Shape& shape, int64_t rank) {
  Tensor made(DType::f32, shape);
  auto values = made.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int64_t>(i) * 7 + rank * 31) % 101 - 50);
  return made;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  const Tensor x = a.to(DType::f64), y = b.to(DType::f64);
  for (size_t i = 0; i < x.as<double>().size(); ++i)
    most = std::max(most, std::abs(x.as<double>()[i] - y.as<double>()[i]));
  return most;
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
      graph->output("own part" + at, own_part(vary(all_reduce(wide, kData), kData), Axis::data, dim, n));
      for (const int64_t to : {0, 1, 2})
        graph->output("exchange" + at + std::to_string(to), all_to_all(wide, Axis::data, dim, to, n));
    }
    graph->output("permute", permute(x, Axis::data, next));
    graph->output("index", graph::axis_index(*graph, Axis::data));
    graph->output("other index", graph::axis_index(*graph, Axis::expert));
    std::vector<Tensors> inputs;
    for (int64_t r = 0; r < n; ++r) {
      const auto k = static_cast<int32_t>(r);
      inputs.push_back({whole_numbers({8, 4, 2}, r), Tensor::from(Shape{4}, std::vector<int32_t>{k, -k, 1 << k, 7})});
    }
    RankThreads ranks(n);
    const auto got = run_on_ranks(ranks, mesh_of(Axis::data, n), graph, inputs);
    const auto wanted = graph::test::evaluate_ranks(*graph, Axis::data, inputs);
    for (size_t r = 0; r < got.size(); ++r) {
      for (size_t o = 0; o < got[r].size(); ++o) {
        ASSERT_EQ(got[r][o].shape(), wanted[r][o].shape());
        EXPECT_EQ(largest_difference(got[r][o], wanted[r][o]), 0) << n << " " << r << " " << graph->outputs()[o].name;
      }
    }
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
  const auto got = run_on_ranks(ranks, Mesh().set(Axis::data, 2).set(Axis::tensor, 2), graph, inputs);
  // Rank = 2 * data + tensor.
  const std::vector<float> data{101, 1010, 101, 1010}, tensor{11, 11, 1100, 1100}, swap{10, 1, 1000, 100};
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(floats(got[r][0])[0], data[r]);
    EXPECT_EQ(floats(got[r][1])[0], tensor[r]);
    EXPECT_EQ(floats(got[r][2])[0], 1111);
    EXPECT_EQ(floats(got[r][3]), (r % 2 == 0 ? std::vector<float>{1, 100} : std::vector<float>{10, 1000}));
    EXPECT_EQ(floats(got[r][4])[0], swap[r]);
  }
}

// y = sum over ranks of x[:, part] w[:, part]^T: the bits of adding the partial products in the order of ranks, and close
// to the whole product.
TEST(Ranks, ProductCutOverTheContraction) {
  const Tensor x = random_tensor({5, 64}, 1), w = random_tensor({7, 64}, 2);
  auto whole = std::make_shared<Graph>("whole");
  const Value wx = whole->input("x", DType::f32, {5, 64});
  whole->output("y", linear(wx, whole->input("w", {{7, 64}, DType::f32, {}}, true)));
  const Tensor product = run_graph(*test_engine(), whole, {x, w})[0];
  for (const int64_t n : {2, 4}) {
    auto graph = std::make_shared<Graph>("cut");
    const Value px = graph->input("x", {Shape{5, 64 / n}, DType::f32, kTensor});
    const Value pw = graph->input("w", {Shape{7, 64 / n}, DType::f32, kTensor}, true);
    graph->output("y", all_reduce(linear(px, pw), kTensor));
    auto parts = std::make_shared<Graph>("parts");
    const Value fx = parts->input("x", DType::f32, {5, 64}), fw = parts->input("w", DType::f32, {7, 64});
    Value total;
    for (int64_t r = 0; r < n; ++r) {
      const int64_t begin = r * 64 / n, end = (r + 1) * 64 / n;
      const Value part = linear(slice_axis(fx, 1, begin, end), slice_axis(fw, 1, begin, end));
      total = r == 0 ? part : add(total, part);
    }
    parts->output("y", total);
    const Tensor in_order = run_graph(*test_engine(), parts, {x, w})[0];

    RankThreads ranks(n);
    const Mesh mesh = mesh_of(Axis::tensor, n);
    const Layout columns = Layout().cut(Axis::tensor, 1);
    Tensors got(static_cast<size_t>(n));
    const auto errors = ranks.run([&](int64_t rank) {
      auto& engine = ranks.engine(rank);
      const Placement place{mesh, rank};
      const auto program = engine.compile(graph, place);
      EXPECT_EQ(program->placement(), place);
      const std::vector<BufferRef> inputs{engine.upload(columns.part(x, place), false, place, columns),
                                          engine.upload_weight(columns.part(w, place), true, place, columns)};
      EXPECT_EQ(inputs[1]->layout(), columns);
      got[static_cast<size_t>(rank)] = program->run(inputs)[0]->read();
    });
    for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
    for (const Tensor& y : got) {
      EXPECT_TRUE(same_bits(y, in_order)) << n;
      EXPECT_LT(largest_difference(y, product), 2e-5);  // 64 products of about 1 in another order
    }
  }
}

// Two layers and a sum of squares; the loss of `rows` rows. axes: those the batch is cut over.
struct Small {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>("small");
  explicit Small(int64_t rows, AxisSet axes) {
    const Value x = graph->input("x", {Shape{rows, 6}, DType::f32, axes});
    const Value w = graph->input("w", {Shape{5, 6}, DType::f32, {}}, true);
    const Value b = graph->input("b", {Shape{5}, DType::f32, {}});
    const Value h = tanh(linear(x, w, b));
    const Value loss = all_reduce(sum(multiply(h, h), {0, 1}), axes);
    const auto grads = gradients(loss, {w, b});
    graph->output("loss", loss);
    graph->output("dw", grads[0]);
    graph->output("db", grads[1]);
  }
};

// Each rank has some rows of the batch: the gradients are the sum of the ranks' own gradients, bit by bit.
TEST(Ranks, DataParallelGradients) {
  const Tensor x = random_tensor({8, 6}, 3), w = random_tensor({5, 6}, 4), b = random_tensor({5}, 5);
  const auto engine = test_engine();
  const Tensors whole = run_graph(*engine, Small(8, {}).graph, {x, w, b});
  for (const int64_t n : {2, 4}) {
    const Layout rows = Layout().cut(Axis::data, 0);
    std::vector<Tensors> inputs;
    Tensors in_order;
    for (int64_t r = 0; r < n; ++r) {
      inputs.push_back({rows.part(x, {mesh_of(Axis::data, n), r}), w, b});
      const Tensors own = run_graph(*engine, Small(8 / n, {}).graph, inputs.back());
      for (size_t i = 0; i < own.size(); ++i) {
        if (r == 0) in_order.push_back(own[i].clone());
        else {
          auto total = in_order[i].mutable_as<float>();
          for (size_t e = 0; e < total.size(); ++e) total[e] += own[i].as<float>()[e];
        }
      }
    }
    RankThreads ranks(n);
    const auto got = run_on_ranks(ranks, mesh_of(Axis::data, n), Small(8 / n, kData).graph, inputs);
    for (const Tensors& of_rank : got) {
      for (size_t i = 0; i < of_rank.size(); ++i) {
        EXPECT_TRUE(same_bits(of_rank[i], in_order[i])) << n << " " << i;
        EXPECT_LT(largest_difference(of_rank[i], whole[i]), 1e-5) << n << " " << i;
      }
    }
  }
}

// Stacked layers cut over fsdp, gathered inside a scan (and again in its gradient); gradients come back cut.
TEST(Ranks, ShardedLayersInAScan) {
  const auto build = [](int64_t n) {
    const AxisSet axes = n == 1 ? AxisSet{} : kFsdp;
    auto body = std::make_shared<Graph>("layer");
    const Value h = body->input("h", {Shape{4 / n, 8}, DType::f32, axes});
    Value w = body->input("w", {Shape{8 / n, 8}, DType::f32, axes});
    if (n > 1) w = all_gather(w, Axis::fsdp, 0, n);
    body->output("h", tanh(linear(h, w)));
    auto graph = std::make_shared<Graph>("layers");
    const Value x = graph->input("x", {Shape{4 / n, 8}, DType::f32, axes});
    const Value layers = graph->input("layers", {Shape{3, 8 / n, 8}, DType::f32, axes}, true);
    const Value out = scan(body, {x}, {layers}, {}, 3).carry[0];
    const Value loss = all_reduce(sum(multiply(out, out), {0, 1}), axes);
    graph->output("loss", loss);
    graph->output("layers", gradients(loss, {layers})[0], "layers");
    return graph;
  };
  const Tensor x = random_tensor({4, 8}, 6), layers = random_tensor({3, 8, 8}, 7);
  const Tensors whole = run_graph(*test_engine(), build(1), {x, layers});
  for (const int64_t n : {2, 4}) {
    const Layout rows = Layout().cut(Axis::fsdp, 0), cut = Layout().cut(Axis::fsdp, 1);
    RankThreads ranks(n);
    const auto errors = ranks.run([&](int64_t rank) {
      auto& engine = ranks.engine(rank);
      const Placement place{mesh_of(Axis::fsdp, n), rank};
      std::vector<BufferRef> inputs{engine.upload(rows.part(x, place), false, place, rows),
                                    engine.upload(cut.part(layers, place), false, place, cut)};
      const auto program = engine.compile(build(n), place);
      const auto made = program->run(inputs);
      EXPECT_EQ(made[1]->layout(), cut);  // that of the input it took over
      EXPECT_LT(largest_difference(made[0]->read(), whole[0]), 1e-5);
      EXPECT_LT(largest_difference(made[1]->read(), cut.part(whole[1], place)), 1e-5);
    });
    for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
  }
}

// Cross entropy of a head whose vocabulary is cut over ranks: log sum exp by all_reduce_max and all_reduce, the logit of
// the target from the rank that has it.
struct Head {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>("head");
  Head(int64_t vocab, int64_t n) {
    const AxisSet over = n == 1 ? AxisSet{} : kTensor;
    const Value x = graph->input("x", {Shape{6, 8}, DType::f32, {}});
    const Value w = graph->input("w", {Shape{vocab / n, 8}, DType::f32, over}, true);
    const Value targets = graph->input("targets", {Shape{6}, DType::i32, {}});
    const Value logits = linear(x, w);
    const Value lse = graph::log_sum_exp(logits, -1, over);
    Value first = graph::scalar_i32(*graph, 0);
    if (n > 1)
      first = multiply(graph::axis_index(*graph, Axis::tensor),
                       graph::scalar_i32(*graph, static_cast<int32_t>(vocab / n)));
    const Value ids = add(graph::iota(*graph, {6, vocab / n}, DType::i32, 1), broadcast(first, {6, vocab / n}));
    const Value hit = convert(equal(ids, broadcast(reshape(targets, {6, 1}), {6, vocab / n})), DType::f32);
    const Value chosen = all_reduce(sum(multiply(logits, hit), {1}), over);
    const Value loss = sum(subtract(lse, chosen), {0});
    const auto grads = gradients(loss, {x, w});
    graph->output("lse", lse);
    graph->output("loss", loss);
    graph->output("dx", grads[0]);
    graph->output("dw", grads[1]);
  }
};

TEST(Ranks, VocabularyCutOverRanks) {
  const int64_t vocab = 32;
  const Tensor x = random_tensor({6, 8}, 8), w = random_tensor({vocab, 8}, 9);
  const Tensor targets = Tensor::from(Shape{6}, std::vector<int32_t>{0, 31, 7, 8, 16, 15});
  const Tensors whole = run_graph(*test_engine(), Head(vocab, 1).graph, {x, w, targets});
  // The fused head of one rank says the same.
  auto fused = std::make_shared<Graph>("fused");
  const Value fx = fused->input("x", DType::f32, {6, 8}), fw = fused->input("w", DType::f32, {vocab, 8});
  const Value nll = linear_cross_entropy(fx, fw, {}, {}, fused->input("targets", DType::i32, {6}), {});
  fused->output("loss", sum(nll, {0}));
  EXPECT_LT(largest_difference(run_graph(*test_engine(), fused, {x, w, targets})[0], whole[1]), 1e-5);
  for (const int64_t n : {2, 4}) {
    const Layout rows = Layout().cut(Axis::tensor, 0);
    const Mesh mesh = mesh_of(Axis::tensor, n);
    std::vector<Tensors> inputs;
    for (int64_t r = 0; r < n; ++r) inputs.push_back({x, rows.part(w, {mesh, r}), targets});
    RankThreads ranks(n);
    const auto got = run_on_ranks(ranks, mesh, Head(vocab, n).graph, inputs);
    for (int64_t r = 0; r < n; ++r) {
      const Tensors& own = got[static_cast<size_t>(r)];
      for (size_t i = 0; i < 3; ++i) EXPECT_LT(largest_difference(own[i], whole[i]), 1e-5) << n << " " << i;
      EXPECT_LT(largest_difference(own[3], rows.part(whole[3], {mesh, r})), 1e-5) << n;
      for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(own[i], got[0][i])) << "equal over ranks: " << i;
    }
  }
}

// The fused head: rows without a target, targets on every rank, a bias and a soft cap.
TEST(Ranks, FusedHeadCutOverTheVocabulary) {
  const int64_t vocab = 32, rows = 6;
  const Tensor x = random_tensor({rows, 8}, 8), w = random_tensor({vocab, 8}, 9), b = random_tensor({vocab}, 10);
  const Tensor weights = random_tensor({rows}, 11);
  for (const float softcap : {0.0f, 4.0f}) {
    const auto build = [&](int64_t n) {
      auto graph = std::make_shared<Graph>("head");
      const AxisSet over = n == 1 ? AxisSet{} : kTensor;
      const Value px = graph->input("x", DType::f32, {rows, 8});
      const Value pw = graph->input("w", {Shape{vocab / n, 8}, DType::f32, over}, true);
      const Value pb = graph->input("b", {Shape{vocab / n}, DType::f32, over});
      const Value targets = graph->input("targets", DType::i32, {rows});
      const Value count = graph->input("count", DType::i32, {});
      const Value nll = n == 1 ? linear_cross_entropy(px, pw, pb, {}, targets, count, softcap)
                               : linear_cross_entropy_over(Axis::tensor, n, px, pw, pb, {}, targets, count, softcap);
      const Value loss = sum(multiply(nll, graph->input("weights", DType::f32, {rows})), {0});
      const auto grads = gradients(loss, {px, pw, pb});
      graph->output("nll", nll);
      graph->output("dx", grads[0]);
      graph->output("dw", grads[1]);
      graph->output("db", grads[2]);
      return graph;
    };
    const Tensor targets = Tensor::from(Shape{rows}, std::vector<int32_t>{0, 31, -1, 8, 32, 15});
    const Tensor count = Tensor::scalar<int32_t>(5);
    const Tensors whole = run_graph(*test_engine(), build(1), {x, w, b, targets, count, weights});
    for (const int64_t n : {2, 4}) {
      const Layout cut = Layout().cut(Axis::tensor, 0);
      const Mesh mesh = mesh_of(Axis::tensor, n);
      std::vector<Tensors> inputs;
      for (int64_t r = 0; r < n; ++r)
        inputs.push_back({x, cut.part(w, {mesh, r}), cut.part(b, {mesh, r}), targets, count, weights});
      RankThreads ranks(n);
      const auto got = run_on_ranks(ranks, mesh, build(n), inputs);
      for (int64_t r = 0; r < n; ++r) {
        const Tensors& own = got[static_cast<size_t>(r)];
        for (size_t i = 0; i < 2; ++i) EXPECT_LT(largest_difference(own[i], whole[i]), 1e-5) << n << " " << i;
        for (size_t i = 2; i < 4; ++i)
          EXPECT_LT(largest_difference(own[i], cut.part(whole[i], {mesh, r})), 1e-5) << n << " " << i;
      }
    }
  }
}

// Keys and values cut over ranks: the parts are joined by their log-sum-exp, whose gradient this needs.
TEST(Ranks, AttentionCutOverKeys) {
  const Tensor q = random_tensor({2, 5, 4, 8}, 12), k = random_tensor({2, 8, 2, 8}, 13), v = random_tensor({2, 8, 2, 6}, 14);
  const auto build = [](int64_t n) {
    auto graph = std::make_shared<Graph>("attention");
    const AxisSet over = n == 1 ? AxisSet{} : AxisSet(Axis::sequence);
    const Value pq = graph->input("q", DType::f32, {2, 5, 4, 8});
    const Value pk = graph->input("k", {Shape{2, 8 / n, 2, 8}, DType::f32, over});
    const Value pv = graph->input("v", {Shape{2, 8 / n, 2, 6}, DType::f32, over});
    graph::AttentionOptions options;
    options.scale = 0.5f;
    const graph::AttentionParts part = attention_parts(pq, pk, pv, graph::Mask{}, options);
    Value out = part.out;
    if (n > 1) {
      const Value top = stop_gradient(all_reduce_max(part.log_sum_exp, over));
      const Value weight = exp(subtract(part.log_sum_exp, top));
      const Value share = divide(weight, vary(all_reduce(weight, over), over)); // (batch, heads, queries)
      out = all_reduce(multiply(out, broadcast(reshape(transpose(share, {0, 2, 1}), {2, 5, 4, 1}), out.shape())), over);
    }
    const Value loss = sum(multiply(out, multiply(out, out)), {0, 1, 2, 3});
    const auto grads = gradients(loss, {pq, pk, pv});
    graph->output("out", out);
    graph->output("dq", grads[0]);
    graph->output("dk", grads[1]);
    graph->output("dv", grads[2]);
    return graph;
  };
  const Tensors whole = run_graph(*test_engine(), build(1), {q, k, v});
  for (const int64_t n : {2, 4}) {
    const Layout keys = Layout().cut(Axis::sequence, 1);
    const Mesh mesh = mesh_of(Axis::sequence, n);
    std::vector<Tensors> inputs;
    for (int64_t r = 0; r < n; ++r) inputs.push_back({q, keys.part(k, {mesh, r}), keys.part(v, {mesh, r})});
    RankThreads ranks(n);
    const auto got = run_on_ranks(ranks, mesh, build(n), inputs);
    for (int64_t r = 0; r < n; ++r) {
      const Tensors& own = got[static_cast<size_t>(r)];
      for (size_t i = 0; i < 2; ++i) EXPECT_LT(largest_difference(own[i], whole[i]), 1e-5) << n << " " << i;
      for (size_t i = 2; i < 4; ++i)
        EXPECT_LT(largest_difference(own[i], keys.part(whole[i], {mesh, r})), 1e-5) << n << " " << i;
    }
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
  const Value x = graph->input("x", {Shape{}, DType::f32, kData}), p = graph->input("p", DType::f32, {4});
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
    for (int64_t r = 0; r < n; ++r) programs.push_back(ranks.engine(r).compile(graph, {mesh_of(Axis::data, n), r}));
    const auto run = [&](float number) {
      return ranks.run([&](int64_t rank) {
        const float own = rank == 1 ? number : 0;
        const Tensor given = Tensor::from(Shape{2}, std::vector<float>{0, own});
        const auto made = programs[static_cast<size_t>(rank)]->run(upload_all(ranks.engine(rank), {given}));
        EXPECT_EQ(floats(made[0]->read())[0], static_cast<float>(n));
      });
    };
    const auto errors = run(1000);  // exp overflows on rank 1
    EXPECT_EQ(errors[1].code(), Code::failed_precondition);
    EXPECT_EQ(errors[1].text().find("[exp] node"), 0u) << errors[1].text();
    for (int64_t r = 0; r < n; ++r) {
      if (r == 1) continue;
      const Error& error = errors[static_cast<size_t>(r)];
      EXPECT_EQ(error.code(), Code::failed_precondition);
      EXPECT_EQ(error.text(), "rank 1 failed: " + errors[1].text());
    }
    // Until all ranks have said that they start again, nothing runs.
    for (const Error& error : run(0)) EXPECT_EQ(error.code(), Code::failed_precondition);
    for (const Error& error : ranks.run([&](int64_t rank) { ranks.communicator(rank).restart(nullptr); }))
      EXPECT_EQ(error.code(), Code::ok);
    for (const Error& error : run(0)) EXPECT_EQ(error.code(), Code::ok) << error.text();
  }
}

// A wrong input is an error of the call, before any exchange; the others must hear of it as well.
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
    const std::vector<BufferRef> inputs{engine.upload(ones), engine.upload(ones, false, place, layout)};
    engine.compile(graph, place)->run(inputs);
  });
  EXPECT_EQ(errors[0].text(), "input z of graph failing is f32(2), given is a part with layout {data: 0}");
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

// Steps of a training run: p' = p + something summed. A cancel of one rank loses no rank's state, whenever it comes.
TEST(Ranks, ACancelBeforeOverwriteStopsAllOrNone) {
  auto graph = std::make_shared<Graph>("step");
  const Value x = graph->input("x", {Shape{3}, DType::f32, kData}), p = graph->input("p", DType::f32, {3});
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
    engine.compile(graph, {mesh_of(Axis::data, 2), rank})->run(upload_all(engine, {random_tensor({2}, 1)}));
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
  EXPECT_EQ(error.text(), "this cpu engine is rank 0 of 1 and cannot be rank 1 of a mesh of 2 ranks (data)");
  EXPECT_EQ(thrown_by([&] { plain->upload(Tensor(DType::f32, {2}), false, place, Layout()); }).code(),
            Code::unimplemented);
  EXPECT_EQ(thrown_by([&] { plain->upload_weight(Tensor(DType::f32, {2, 2}), true, place, Layout()); }).code(),
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
  gathered->output("y", all_gather(gathered->input("x", {Shape{2}, DType::f32, kData}), Axis::data, 0, 4));
  error = thrown_by([&] { ranks.engine(1).compile(gathered, place); });
  EXPECT_EQ(error.text(), "[all_gather] in graph gather is for 4 ranks along data, the mesh has 2");
  // A program of one rank runs on one of two ranks alone.
  EXPECT_EQ(floats(run_graph(ranks.engine(1), graph, {Tensor::from(Shape{2}, std::vector<float>{3, 4})})[0])[1], 4);
}

} // namespace
} // namespace dllm::cpu
