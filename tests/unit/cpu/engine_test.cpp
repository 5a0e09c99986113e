// The engine's door: compile, run, read, errors that name the thing, limits, weights kept packed.

#include "cpu/engine.h"
#include "cpu/kernel.h"

#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <limits>

namespace dllm::cpu {
namespace {

using graph::Value;

std::shared_ptr<graph::Graph> affine() {
  auto made = std::make_shared<graph::Graph>("affine");
  const Value x = made->input("x", DType::f32, {2, 3});
  const Value w = made->input("w", {{4, 3}, DType::f32, {}}, true);
  made->output("y", add(linear(x, w), graph::scalar(*made, 1.0f)));
  return made;
}

Tensor counting(Shape shape, float first = 0, float step = 1) {
  std::vector<float> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>(i);
  return Tensor::from(std::move(shape), values);
}

TEST(Engine, RunsAGraph) {
  auto engine = test_engine();
  const auto out = run_graph(*engine, affine(), {counting({2, 3}), counting({4, 3})});
  ASSERT_EQ(out.size(), 1u);
  // x = [[0 1 2] [3 4 5]], rows of w = [3j, 3j + 1, 3j + 2]
  EXPECT_EQ(floats(out[0]), (std::vector<float>{6, 15, 24, 33, 15, 51, 87, 123}));
  EXPECT_EQ(engine->i64("compiles"), 1);
}

TEST(Engine, NamesWrongInputs) {
  auto engine = test_engine();
  auto program = engine->compile(affine());
  const Tensor x = counting({2, 3}), w = counting({4, 3});
  EXPECT_NE(thrown_by([&] { program->run(upload_all(*engine, {x})); })
                .text()
                .find("2 inputs, 1 were given"),
            std::string::npos);
  const Error error = thrown_by([&] { program->run(upload_all(*engine, {x, x})); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_EQ(error.text(), "input w of graph affine is f32(4, 3), the given array is f32(2, 3)");
  EXPECT_EQ(thrown_by([&] { program->run(std::vector<graph::BufferRef>(2)); }).text(),
            "input x of graph affine is missing");
  program->run(upload_all(*engine, {x, w})); // still usable
}

TEST(Engine, RefusesWhatDoesNotFit) {
  auto engine = test_engine();
  engine->set_i64("memory_limit", 1 << 20);
  auto graph = std::make_shared<graph::Graph>("large");
  const Value x = graph->input("x", DType::f32, {1 << 20});
  graph->output("y", exp(x));
  const Error error = thrown_by([&] { engine->compile(graph); });
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_EQ(error.text(), "graph large needs 8.0 MiB at its peak, the engine's limit is 1.0 MiB");
  EXPECT_FALSE(error.hint().empty());
  EXPECT_EQ(thrown_by([&] { engine->upload(counting({1 << 19})); }).code(),
            Code::resource_exhausted);
}

TEST(Engine, KeepsFrozenWeightsPackedAndReadsThemBack) {
  auto engine = test_engine();
  for (DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const Tensor w = counting({2, 37, 19}, -60, 0.05f).to(dtype);
    auto buffer = engine->upload_weight(w, false);
    const Tensor back = buffer->read();
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_TRUE(same_bits(w, back)) << dtype_name(dtype);
    EXPECT_EQ(buffer->memory_bytes(), 2 * packed_bytes(37, 19, dtype)); // and stays packed
  }
}

TEST(Engine, ARunOverPackedWeightsEqualsOneOverPlain) {
  auto engine = test_engine();
  auto program = engine->compile(affine());
  const Tensor x = random_tensor({2, 3}, 1), w = random_tensor({4, 3}, 2);
  const auto plain = read_all(program->run({{engine->upload(x), engine->upload(w)}}));
  const auto packed =
      read_all(program->run({{engine->upload(x), engine->upload_weight(w, false)}}));
  EXPECT_TRUE(same_bits(plain, packed));
}

TEST(Engine, ReadTensorsKeepTheirNumbers) {
  auto engine = test_engine();
  auto graph = std::make_shared<graph::Graph>("step");
  const Value x = graph->input("x", DType::f32, {3});
  graph->output("y", add(x, graph::scalar(*graph, 1.0f)), "x");
  auto program = engine->compile(graph);
  std::vector<graph::BufferRef> state = upload_all(*engine, {counting({3})});
  const Tensor before = state[0]->read();
  state = program->run(state);
  EXPECT_EQ(floats(before), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(floats(state[0]->read()), (std::vector<float>{1, 2, 3}));
}

TEST(Engine, NamesTheOperationThatMakesNaN) {
  auto engine = test_engine(1, "finite");
  auto graph = std::make_shared<graph::Graph>("logs");
  const Value x = graph->input("x", DType::f32, {4});
  graph->output("y", multiply(log(x), x));
  auto program = engine->compile(graph);
  program->run(upload_all(*engine, {counting({4}, 1)}));
  const Error error = thrown_by([&] { program->run(upload_all(*engine, {counting({4}, 2, -1)})); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_NE(error.text().find("[log]"), std::string::npos) << error.text();
  EXPECT_NE(error.text().find("-inf at element 2"), std::string::npos) << error.text();
}

// -infinity of masks is no finding: a query without keys (its log-sum-exp), and scores that are
// hidden by a select.
TEST(Engine, ChecksLetMinusInfinityOfMasksThrough) {
  auto engine = test_engine(1, "finite");
  auto graph = std::make_shared<graph::Graph>("masked");
  const Value q = graph->input("q", DType::f32, {2, 1, 1, 4}),
              k = graph->input("k", DType::f32, {2, 3, 1, 4});
  const Value end = graph->input("end", DType::i32, {2});
  const graph::Mask mask =
      graph::Mask::full().and_key_range(graph::constant(*graph, Tensor(DType::i32, {2})), end);
  const auto parts = attention_parts(q, k, k, mask, {});
  graph->output("out", parts.out);
  graph->output("lse", parts.log_sum_exp);
  const Value hidden = graph::scalar(*graph, -std::numeric_limits<float>::infinity());
  const Value scores =
      select(greater(parts.out, graph::full(*graph, {2, 1, 1, 4}, 1.0f)), parts.out, hidden);
  graph->output("scores", scores);
  auto program = engine->compile(graph);
  const Tensor ends = Tensor::from(Shape{2}, std::vector<int32_t>{3, 0});
  const auto made =
      program->run(upload_all(*engine, {counting({2, 1, 1, 4}), counting({2, 3, 1, 4}), ends}));
  EXPECT_TRUE(std::isfinite(floats(made[1]->read())[0]));
  EXPECT_EQ(floats(made[1]->read())[1], -std::numeric_limits<float>::infinity());
}

TEST(Engine, DescribesItself) {
  auto engine = test_engine(2);
  EXPECT_EQ(engine->i64("threads"), 2);
  engine->set_i64("threads", 3);
  EXPECT_EQ(engine->describe()["threads"], 3);
  EXPECT_EQ(engine->describe()["devices"].dump(), "[\"cpu:0\"]");
  EXPECT_EQ(engine->describe()["memory"]["used"], 0);
  EXPECT_EQ(thrown_by([&] { engine->i64("thread"); }).hint(), "did you mean threads?");
  EXPECT_EQ(thrown_by([&] { engine->set_i64("ranks", 2); }).code(), Code::failed_precondition);
  EXPECT_GT(engine->peak_flops(), 1e8);
}

TEST(Engine, CountsItsMemory) {
  auto engine = test_engine();
  EXPECT_EQ(engine->i64("memory_used"), 0);
  {
    auto buffer = engine->upload(counting({256}));
    EXPECT_EQ(engine->i64("memory_used"), 1024);
    EXPECT_EQ(buffer->memory_bytes(), 1024);
    auto weight = engine->upload_weight(counting({16, 16}), true);
    EXPECT_EQ(engine->i64("memory_used"), 2048);
  }
  EXPECT_EQ(engine->i64("memory_used"), 0);
  run_graph(*engine, affine(), {counting({2, 3}), counting({4, 3})});
  engine->trim();
  EXPECT_EQ(engine->i64("memory_used"), 0);
  EXPECT_EQ(engine->i64("memory_peak"), 2048); // the array and the weight of above
}

} // namespace
} // namespace dllm::cpu
