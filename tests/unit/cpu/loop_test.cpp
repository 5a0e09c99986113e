// Scan and while against loops written by hand.

#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

// carry' = 2 carry + layer + k, result = carry before
std::shared_ptr<Graph> recurrence() {
  auto body = std::make_shared<Graph>("recurrence");
  const Value carry = body->input("carry", DType::f32, {2});
  const Value layer = body->input("layer", DType::f32, {2});
  const Value k = body->input("k", DType::f32, {2});
  body->output("carry", add(add(multiply(carry, graph::scalar(*body, 2.0f)), layer), k));
  body->output("before", carry);
  return body;
}

struct Range {
  int64_t begin, end;
  bool reverse;
};

TEST(Scan, RunsRangesInBothDirections) {
  auto engine = test_engine();
  for (Range range : {Range{0, 5, false},
                      {0, 5, true},
                      {1, 4, false},
                      {2, 3, true},
                      {3, 3, false},
                      {0, 4, false}}) {
    auto graph = std::make_shared<Graph>("loop");
    const Value start = graph->input("start", DType::f32, {2});
    const Value layers = graph->input("layers", DType::f32, {5, 2});
    const Value k = graph->input("k", DType::f32, {2});
    const auto made =
        scan(recurrence(), {start}, {layers}, {k}, 5, {range.begin, range.end, range.reverse});
    graph->output("last", made.carry[0]);
    graph->output("befores", made.stacked[0]);
    const Tensor given[] = {random_tensor({2}, 1), random_tensor({5, 2}, 2), random_tensor({2}, 3)};
    const auto out = run_graph(*engine, graph, {given[0], given[1], given[2]});

    std::vector<float> carry = floats(given[0]), befores(10, 0.0f);
    for (int64_t n = 0; n < range.end - range.begin; ++n) {
      const int64_t i = range.reverse ? range.end - 1 - n : range.begin + n;
      for (size_t e = 0; e < 2; ++e) {
        befores[static_cast<size_t>(i) * 2 + e] = carry[e];
        carry[e] = carry[e] * 2.0f + given[1].as<float>()[static_cast<size_t>(i) * 2 + e] +
                   given[2].as<float>()[e];
      }
    }
    EXPECT_EQ(floats(out[0]), carry) << range.begin << " to " << range.end;
    EXPECT_EQ(floats(out[1]), befores) << range.begin << " to " << range.end;
  }
}

TEST(Scan, SwapsCarries) {
  auto body = std::make_shared<Graph>("fibonacci");
  const Value a = body->input("a", DType::f32, {1}), b = body->input("b", DType::f32, {1});
  body->output("a", b);
  body->output("b", add(a, b));
  auto engine = test_engine();
  for (int64_t steps : {0, 1, 2, 7, 10}) {
    auto graph = std::make_shared<Graph>("main");
    const Value zero = graph->input("zero", DType::f32, {1}),
                one = graph->input("one", DType::f32, {1});
    const auto made = scan(body, {zero, one}, {}, {}, steps);
    graph->output("a", made.carry[0]);
    graph->output("b", made.carry[1]);
    const auto out = run_graph(*engine, graph,
                               {Tensor::from<float>({1}, std::vector<float>{0}),
                                Tensor::from<float>({1}, std::vector<float>{1})});
    float x = 0, y = 1;
    for (int64_t i = 0; i < steps; ++i) {
      const float sum = x + y;
      x = y;
      y = sum;
    }
    EXPECT_EQ(floats(out[0])[0], x) << steps;
    EXPECT_EQ(floats(out[1])[0], y) << steps;
  }
}

// One layer y = tanh(x w^T), w of any storage type; int8 has a scale per row.
Value product(Value x, Value w, Value scale) {
  return tanh(linear(x, w, {}, w.dtype() == DType::i8 ? scale : Value{}));
}

// y = layer(n) .. layer(1) x with stacked parameters: the same bits as the layers one by one,
// packed or not.
class StackedWeights : public testing::TestWithParam<DType> {};

TEST_P(StackedWeights, AreReadInPlace) {
  const DType dtype = GetParam();
  auto body = std::make_shared<Graph>("layer");
  const Value x = body->input("x", DType::f32, {3, 20});
  const Value w = body->input("w", dtype, {20, 20}), scale = body->input("scale", DType::f32, {20});
  body->output("x", product(x, w, scale));
  auto graph = std::make_shared<Graph>("stack");
  const Value start = graph->input("x", DType::f32, {3, 20});
  const Value weights = graph->input("w", {{4, 20, 20}, dtype, {}}, true);
  const Value scales = graph->input("scale", DType::f32, {4, 20});
  graph->output("y", scan(body, {start}, {weights, scales}, {}, 4).carry[0]);

  auto single = std::make_shared<Graph>("single");
  const Value sx = single->input("x", DType::f32, {3, 20}),
              sw = single->input("w", dtype, {20, 20});
  single->output("y", product(sx, sw, single->input("scale", DType::f32, {20})));

  auto engine = test_engine();
  auto layer = engine->compile(single);
  const float size = dtype == DType::i8 ? 127.0f : 1.0f;
  const Tensor given = random_tensor({3, 20}, 5),
               stacked = random_tensor({4, 20, 20}, 6, size).to(dtype);
  const Tensor factors = random_tensor({4, 20}, 7, 1 / size);
  auto now = engine->upload(given);
  for (int64_t i = 0; i < 4; ++i) {
    now = layer->run({{now, engine->upload(stacked.row(i)), engine->upload(factors.row(i))}})[0];
  }
  auto program = engine->compile(graph);
  for (bool keep_plain : {true, false}) {
    const std::vector<graph::BufferRef> inputs{
        engine->upload(given), engine->upload_weight(stacked, keep_plain), engine->upload(factors)};
    EXPECT_TRUE(same_bits(program->run(inputs)[0]->read(), now->read())) << keep_plain;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StackedWeights, testing::Values(DType::f32, DType::bf16, DType::i8),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(Scan, Nests) {
  auto inner = std::make_shared<Graph>("inner");
  const Value s = inner->input("s", DType::f32, {}), x = inner->input("x", DType::f32, {});
  const Value sum = add(multiply(s, graph::scalar(*inner, 3.0f)), x);
  inner->output("s", sum);
  inner->output("each", sum);
  auto outer = std::make_shared<Graph>("outer");
  const Value t = outer->input("t", DType::f32, {}), row = outer->input("row", DType::f32, {4});
  const auto made = scan(inner, {t}, {row}, {}, 4, {0, 4, true});
  outer->output("t", made.carry[0]);
  outer->output("sums", made.stacked[0]);
  auto graph = std::make_shared<Graph>("main");
  const Value zero = graph->input("zero", DType::f32, {}),
              table = graph->input("table", DType::f32, {3, 4});
  const auto all = scan(outer, {zero}, {table}, {}, 3);
  graph->output("t", all.carry[0]);
  graph->output("sums", all.stacked[0]);
  const Tensor numbers = random_tensor({3, 4}, 9);
  const auto out = run_graph(*test_engine(), graph, {Tensor::scalar(0.5f), numbers});
  float state = 0.5f;
  std::vector<float> sums(12);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 4; j-- > 0;)
      sums[4 * i + j] = state = state * 3.0f + numbers.as<float>()[4 * i + j];
  }
  EXPECT_EQ(floats(out[0])[0], state);
  EXPECT_EQ(floats(out[1]), sums);
}

// What a graph does with gradients: it adds their squares, or outputs them.
enum class Gradients { squared, output, brief };

// Layers h = tanh(h w^T), the sum of the last h, and the gradients of w.
std::shared_ptr<Graph> gradients_of_layers(int64_t layers, bool remat,
                                           Gradients use = Gradients::squared) {
  auto body = std::make_shared<Graph>("layer");
  const Value h = body->input("h", DType::f32, {64, 128});
  const Value w = body->input("w", DType::f32, {128, 128});
  body->output("h", tanh(linear(h, w)));
  auto graph = std::make_shared<Graph>("step");
  const Value x = graph->input("x", DType::f32, {64, 128});
  const Value all = graph->input("w", DType::f32, {layers, 128, 128});
  graph::ScanOptions options;
  options.remat = remat;
  const Value last = scan(body, {x}, {all}, {}, layers, options).carry[0];
  const Value loss = sum(last, {0, 1});
  const Value made = graph::gradients(loss, {all})[0];
  if (use == Gradients::squared)
    graph->output("squares", sum_of_squares(made));
  else
    graph->output("gradients", made, "", use == Gradients::brief);
  return graph;
}

// Gradients of the layers begin where the kept values of later layers were.
TEST(Scan, StacksThatAreUsedUpAndMadeOverlap) {
  constexpr int64_t kLayers = 32, kKept = kLayers * 64 * 128 * 4, kMade = kLayers * 128 * 128 * 4;
  auto engine = test_engine(2);
  const auto graph = gradients_of_layers(kLayers, false);
  EXPECT_LT(engine->compile(graph)->plan().arena_bytes, 2 * kKept + kMade);
  const std::vector<Tensor> inputs{random_tensor({64, 128}, 1),
                                   random_tensor({kLayers, 128, 128}, 2)};
  const auto kept = run_graph(*engine, graph, inputs);
  const auto again = run_graph(*engine, gradients_of_layers(kLayers, true), inputs);
  EXPECT_EQ(floats(kept[0]), floats(again[0]));
}

// A program that outputs gradients briefly needs no more than one that uses them itself.
TEST(Scan, BriefOutputsOverlapWhatIsUsedUp) {
  constexpr int64_t kLayers = 32, kKept = kLayers * 64 * 128 * 4, kMade = kLayers * 128 * 128 * 4;
  auto engine = test_engine(2);
  const auto program_of = [&](Gradients use) {
    return engine->compile(gradients_of_layers(kLayers, false, use));
  };
  const auto brief = program_of(Gradients::brief), lasting = program_of(Gradients::output);
  EXPECT_LE(brief->plan().peak_bytes, program_of(Gradients::squared)->plan().peak_bytes);
  EXPECT_EQ(brief->plan().output_bytes, 0);
  EXPECT_EQ(lasting->plan().output_bytes, kMade);
  EXPECT_GT(lasting->plan().peak_bytes, brief->plan().peak_bytes + kKept / 2);

  const std::vector<Tensor> inputs{random_tensor({64, 128}, 1),
                                   random_tensor({kLayers, 128, 128}, 2)};
  auto given = upload_all(*engine, inputs);
  const int64_t before = engine->i64("memory_used");
  auto made = brief->run(given);
  EXPECT_EQ(engine->i64("memory_peak"), before + brief->plan().arena_bytes);
  // Runs do not write into the arena while the output is there.
  auto other = brief->run(upload_all(*engine, {inputs[1].row(0).rows(0, 64), inputs[1]}));
  EXPECT_TRUE(same_bits(made[0]->read(), lasting->run(given)[0]->read()));
  EXPECT_FALSE(same_bits(made[0]->read(), other[0]->read()));
  other.clear();
  const Tensor numbers = made[0]->read().clone();
  made.clear();
  engine->trim();
  EXPECT_EQ(engine->i64("memory_used"), before);

  made = brief->run(given);
  given.clear();
  engine.reset();
  EXPECT_TRUE(same_bits(made[0]->read(), numbers)); // the last program still has the engine
}

// A large carry that each step changes in one row is updated in place: no second buffer.
TEST(Scan, WorksInPlaceWhereItCan) {
  auto body = std::make_shared<Graph>("write");
  const Value cache = body->input("cache", DType::f32, {64, 256});
  const Value row = body->input("row", DType::f32, {1, 256});
  const Value at = body->input("at", DType::i32, {});
  const Value zero = graph::scalar_i32(*body, 0);
  body->output("cache", dynamic_update_slice(cache, row, {at, zero}));
  auto graph = std::make_shared<Graph>("cache");
  const Value start = graph->input("cache", DType::f32, {64, 256});
  const Value rows = graph->input("rows", DType::f32, {5, 1, 256});
  const Value places = graph->input("at", DType::i32, {5});
  graph->output("cache", scan(body, {start}, {rows, places}, {}, 5).carry[0], "cache");
  auto engine = test_engine();
  auto program = engine->compile(graph);
  EXPECT_LT(program->plan().arena_bytes, 64 * 256 * 4);
  EXPECT_EQ(program->plan().output_bytes, 0);
  const Tensor given = random_tensor({64, 256}, 1), news = random_tensor({5, 1, 256}, 2);
  const std::vector<int32_t> at_values{3, 0, 63, 3, 7};
  const auto out = run_graph(*engine, graph, {given, news, Tensor::from<int32_t>({5}, at_values)});
  std::vector<float> expected = floats(given);
  for (size_t i = 0; i < 5; ++i) {
    std::copy_n(news.as<float>().data() + 256 * i, 256, expected.data() + 256 * at_values[i]);
  }
  EXPECT_EQ(floats(out[0]), expected);
}

TEST(While, CountsAsDataSays) {
  auto cond = std::make_shared<Graph>("cond");
  {
    const Value n = cond->input("n", DType::i32, {}), x = cond->input("x", DType::f32, {3});
    const Value limit = cond->input("limit", DType::i32, {});
    (void)x;
    cond->output("go", less(n, limit));
  }
  auto body = std::make_shared<Graph>("body");
  {
    const Value n = body->input("n", DType::i32, {}), x = body->input("x", DType::f32, {3});
    body->input("limit", DType::i32, {});
    body->output("n", add(n, graph::scalar_i32(*body, 1)));
    body->output("x", add(multiply(x, x), convert(broadcast(n, Shape{3}), DType::f32)));
  }
  auto graph = std::make_shared<Graph>("main");
  const Value n = graph->input("n", DType::i32, {}), x = graph->input("x", DType::f32, {3});
  const Value limit = graph->input("limit", DType::i32, {});
  const auto out = while_loop(cond, body, {n, x}, {limit});
  graph->output("n", out[0]);
  graph->output("x", out[1]);
  auto engine = test_engine();
  const Tensor start = random_tensor({3}, 4, 0.5f);
  for (int32_t steps : {0, 1, 2, 5}) {
    const auto made = run_graph(
        *engine, graph, {Tensor::scalar<int32_t>(0), start, Tensor::scalar<int32_t>(steps)});
    std::vector<float> expected = floats(start);
    for (int32_t i = 0; i < steps; ++i) {
      for (float& v : expected) v = v * v + static_cast<float>(i);
    }
    EXPECT_EQ(made[0].as<int32_t>()[0], steps);
    EXPECT_EQ(floats(made[1]), expected);
  }
}

} // namespace
} // namespace dllm::cpu
