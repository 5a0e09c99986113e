// Layers, batches, vocabularies and keys cut over ranks give the numbers and the gradients of one
// rank.

#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_ranks.h"

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

const AxisSet kOverData(Axis::data), kOverTensor(Axis::tensor), kOverFsdp(Axis::fsdp);

// y = sum over ranks of x[:, part] w[:, part]^T: the bits of adding the partial products in the
// order of ranks, and close to the whole product.
TEST(CutGraphs, ProductCutOverTheContraction) {
  const Tensor x = random_tensor({5, 64}, 1), w = random_tensor({7, 64}, 2);
  auto whole = std::make_shared<Graph>("whole");
  const Value wx = whole->input("x", DType::f32, {5, 64});
  whole->output("y", linear(wx, whole->input("w", {{7, 64}, DType::f32, {}}, true)));
  const Tensor product = run_graph(*test_engine(), whole, {x, w})[0];
  for (const int64_t n : {2, 4}) {
    auto graph = std::make_shared<Graph>("cut");
    const Value px = graph->input("x", {Shape{5, 64 / n}, DType::f32, kOverTensor});
    const Value pw = graph->input("w", {Shape{7, 64 / n}, DType::f32, kOverTensor}, true);
    graph->output("y", all_reduce(linear(px, pw), kOverTensor));
    auto parts = std::make_shared<Graph>("parts");
    const Value fx = parts->input("x", DType::f32, {5, 64}),
                fw = parts->input("w", DType::f32, {7, 64});
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
      const std::vector<BufferRef> inputs{
          engine.upload(columns.part(x, place), false, place, columns),
          engine.upload_weight(columns.part(w, place), true, place, columns)};
      EXPECT_EQ(inputs[1]->layout(), columns);
      got[static_cast<size_t>(rank)] = program->run(inputs)[0]->read();
    });
    for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
    for (const Tensor& y : got) {
      EXPECT_TRUE(same_bits(y, in_order)) << n;
      EXPECT_LT(largest_difference(y, product), 2e-5); // 64 products of about 1 in another order
    }
  }
}

// Two layers and a sum of squares; the loss of `rows` rows. axes: those the batch is cut over.
struct TwoLayers {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>("small");
  explicit TwoLayers(int64_t rows, AxisSet axes) {
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

// Each rank has some rows of the batch: the gradients are the sum of the ranks' own gradients, bit
// by bit.
TEST(CutGraphs, DataParallelGradients) {
  const Tensor x = random_tensor({8, 6}, 3), w = random_tensor({5, 6}, 4),
               b = random_tensor({5}, 5);
  const auto engine = test_engine();
  const Tensors whole = run_graph(*engine, TwoLayers(8, {}).graph, {x, w, b});
  for (const int64_t n : {2, 4}) {
    const Layout rows = Layout().cut(Axis::data, 0);
    std::vector<Tensors> inputs;
    Tensors in_order;
    for (int64_t r = 0; r < n; ++r) {
      inputs.push_back({rows.part(x, {mesh_of(Axis::data, n), r}), w, b});
      const Tensors own = run_graph(*engine, TwoLayers(8 / n, {}).graph, inputs.back());
      for (size_t i = 0; i < own.size(); ++i) {
        if (r == 0)
          in_order.push_back(own[i].clone());
        else {
          auto total = in_order[i].mutable_as<float>();
          for (size_t e = 0; e < total.size(); ++e) total[e] += own[i].as<float>()[e];
        }
      }
    }
    RankThreads ranks(n);
    const auto got =
        run_on_ranks(ranks, mesh_of(Axis::data, n), TwoLayers(8 / n, kOverData).graph, inputs);
    for (const Tensors& of_rank : got) {
      for (size_t i = 0; i < of_rank.size(); ++i) {
        EXPECT_TRUE(same_bits(of_rank[i], in_order[i])) << n << " " << i;
        EXPECT_LT(largest_difference(of_rank[i], whole[i]), 1e-5) << n << " " << i;
      }
    }
  }
}

// Stacked layers cut over fsdp, gathered inside a scan (and again in its gradient); gradients come
// back cut.
TEST(CutGraphs, ShardedLayersInAScan) {
  const auto build = [](int64_t n) {
    const AxisSet axes = n == 1 ? AxisSet{} : kOverFsdp;
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
      EXPECT_EQ(made[1]->layout(), cut); // that of the input it took over
      EXPECT_LT(largest_difference(made[0]->read(), whole[0]), 1e-5);
      EXPECT_LT(largest_difference(made[1]->read(), cut.part(whole[1], place)), 1e-5);
    });
    for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
  }
}

// Cross entropy of a head whose vocabulary is cut over ranks: log sum exp by all_reduce_max and
// all_reduce, the logit of the target from the rank that has it.
struct ComposedHead {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>("head");
  ComposedHead(int64_t vocab, int64_t n) {
    const AxisSet over = n == 1 ? AxisSet{} : kOverTensor;
    const Value x = graph->input("x", {Shape{6, 8}, DType::f32, {}});
    const Value w = graph->input("w", {Shape{vocab / n, 8}, DType::f32, over}, true);
    const Value targets = graph->input("targets", {Shape{6}, DType::i32, {}});
    const Value logits = linear(x, w);
    const Value lse = graph::log_sum_exp(logits, -1, over);
    Value first = graph::scalar_i32(*graph, 0);
    if (n > 1)
      first = multiply(graph::axis_index(*graph, Axis::tensor),
                       graph::scalar_i32(*graph, static_cast<int32_t>(vocab / n)));
    const Value ids =
        add(graph::iota(*graph, {6, vocab / n}, DType::i32, 1), broadcast(first, {6, vocab / n}));
    const Value hit =
        convert(equal(ids, broadcast(reshape(targets, {6, 1}), {6, vocab / n})), DType::f32);
    const Value chosen = all_reduce(sum(multiply(logits, hit), {1}), over);
    const Value loss = sum(subtract(lse, chosen), {0});
    const auto grads = gradients(loss, {x, w});
    graph->output("lse", lse);
    graph->output("loss", loss);
    graph->output("dx", grads[0]);
    graph->output("dw", grads[1]);
  }
};

TEST(CutGraphs, VocabularyCutOverRanks) {
  const int64_t vocab = 32;
  const Tensor x = random_tensor({6, 8}, 8), w = random_tensor({vocab, 8}, 9);
  const Tensor targets = Tensor::from(Shape{6}, std::vector<int32_t>{0, 31, 7, 8, 16, 15});
  const Tensors whole = run_graph(*test_engine(), ComposedHead(vocab, 1).graph, {x, w, targets});
  // The fused head of one rank says the same.
  auto fused = std::make_shared<Graph>("fused");
  const Value fx = fused->input("x", DType::f32, {6, 8}),
              fw = fused->input("w", DType::f32, {vocab, 8});
  const Value nll =
      linear_cross_entropy(fx, fw, {}, {}, fused->input("targets", DType::i32, {6}), {});
  fused->output("loss", sum(nll, {0}));
  EXPECT_LT(largest_difference(run_graph(*test_engine(), fused, {x, w, targets})[0], whole[1]),
            1e-5);
  for (const int64_t n : {2, 4}) {
    const Layout rows = Layout().cut(Axis::tensor, 0);
    const Mesh mesh = mesh_of(Axis::tensor, n);
    std::vector<Tensors> inputs;
    for (int64_t r = 0; r < n; ++r) inputs.push_back({x, rows.part(w, {mesh, r}), targets});
    RankThreads ranks(n);
    const auto got = run_on_ranks(ranks, mesh, ComposedHead(vocab, n).graph, inputs);
    for (int64_t r = 0; r < n; ++r) {
      const Tensors& own = got[static_cast<size_t>(r)];
      for (size_t i = 0; i < 3; ++i)
        EXPECT_LT(largest_difference(own[i], whole[i]), 1e-5) << n << " " << i;
      EXPECT_LT(largest_difference(own[3], rows.part(whole[3], {mesh, r})), 1e-5) << n;
      for (size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(same_bits(own[i], got[0][i])) << "equal over ranks: " << i;
    }
  }
}

// The fused head: rows without a target, targets on every rank, a bias and a soft cap.
TEST(CutGraphs, FusedHeadCutOverTheVocabulary) {
  const int64_t vocab = 32, rows = 6;
  const Tensor x = random_tensor({rows, 8}, 8), w = random_tensor({vocab, 8}, 9),
               b = random_tensor({vocab}, 10);
  const Tensor weights = random_tensor({rows}, 11);
  for (const float softcap : {0.0f, 4.0f}) {
    const auto build = [&](int64_t n) {
      auto graph = std::make_shared<Graph>("head");
      const AxisSet over = n == 1 ? AxisSet{} : kOverTensor;
      const Value px = graph->input("x", DType::f32, {rows, 8});
      const Value pw = graph->input("w", {Shape{vocab / n, 8}, DType::f32, over}, true);
      const Value pb = graph->input("b", {Shape{vocab / n}, DType::f32, over});
      const Value targets = graph->input("targets", DType::i32, {rows});
      const Value count = graph->input("count", DType::i32, {});
      const Value nll = n == 1 ? linear_cross_entropy(px, pw, pb, {}, targets, count, softcap)
                               : linear_cross_entropy_over(Axis::tensor, n, px, pw, pb, {}, targets,
                                                           count, softcap);
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
        inputs.push_back(
            {x, cut.part(w, {mesh, r}), cut.part(b, {mesh, r}), targets, count, weights});
      RankThreads ranks(n);
      const auto got = run_on_ranks(ranks, mesh, build(n), inputs);
      for (int64_t r = 0; r < n; ++r) {
        const Tensors& own = got[static_cast<size_t>(r)];
        for (size_t i = 0; i < 2; ++i)
          EXPECT_LT(largest_difference(own[i], whole[i]), 1e-5) << n << " " << i;
        for (size_t i = 2; i < 4; ++i)
          EXPECT_LT(largest_difference(own[i], cut.part(whole[i], {mesh, r})), 1e-5)
              << n << " " << i;
      }
    }
  }
}

// Keys and values cut over ranks: the parts are joined by their log-sum-exp, whose gradient this
// needs.
TEST(CutGraphs, AttentionCutOverKeys) {
  const Tensor q = random_tensor({2, 5, 4, 8}, 12), k = random_tensor({2, 8, 2, 8}, 13),
               v = random_tensor({2, 8, 2, 6}, 14);
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
      const Value share =
          divide(weight, vary(all_reduce(weight, over), over)); // (batch, heads, queries)
      out = all_reduce(
          multiply(out, broadcast(reshape(transpose(share, {0, 2, 1}), {2, 5, 4, 1}), out.shape())),
          over);
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
    for (int64_t r = 0; r < n; ++r)
      inputs.push_back({q, keys.part(k, {mesh, r}), keys.part(v, {mesh, r})});
    RankThreads ranks(n);
    const auto got = run_on_ranks(ranks, mesh, build(n), inputs);
    for (int64_t r = 0; r < n; ++r) {
      const Tensors& own = got[static_cast<size_t>(r)];
      for (size_t i = 0; i < 2; ++i)
        EXPECT_LT(largest_difference(own[i], whole[i]), 1e-5) << n << " " << i;
      for (size_t i = 2; i < 4; ++i)
        EXPECT_LT(largest_difference(own[i], keys.part(whole[i], {mesh, r})), 1e-5)
            << n << " " << i;
    }
  }
}

} // namespace
} // namespace dllm::cpu
