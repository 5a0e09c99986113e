// Buffers of a run: shared ones stay, donated ones come back whatever ends the run.

#include "runtime/programs.h"

#include "base/error.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "graph/ops.h"

#include <gtest/gtest.h>

#include <functional>

namespace dllm::runtime {
namespace {

Tensor numbers(std::vector<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::from(Shape{count}, values);
}

std::vector<float> values_of(const graph::BufferRef& buffer) {
  const Tensor read = buffer->read();
  return {read.as<float>().begin(), read.as<float>().end()};
}

// A program that calls `before` and then another.
class Hooked final : public graph::Program {
public:
  explicit Hooked(std::shared_ptr<graph::Program> inner) : inner_(std::move(inner)) {}
  const graph::Graph& graph() const override { return inner_->graph(); }
  const graph::PlanReport& plan() const override { return inner_->plan(); }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override {
    if (before) before(inputs);
    return inner_->run(inputs, task, rule);
  }
  std::function<void(std::span<const graph::BufferRef>)> before;

private:
  std::shared_ptr<graph::Program> inner_;
};

// sum <- sum + weight * batch:x, and last = the old sum.
class ArgumentsTest : public testing::Test {
protected:
  void SetUp() override {
    engine = cpu::make_engine(Options(graph::engine_schema()));
    feed.set("x", numbers({1, 2}));
    auto made = std::make_shared<graph::Graph>("test");
    const graph::Value weight = made->input("weight", {Shape{2}, DType::f32, {}}, true);
    const graph::Value sum = made->input("sum", DType::f32, Shape{2});
    const graph::Value x = feed_inputs(*made, feed).at("x");
    made->output("total", graph::sum(sum, {0}));
    made->output("sum", graph::add(sum, graph::multiply(weight, x)), "sum");
    program = std::make_shared<Hooked>(engine->compile(made));
    weight_buffer = engine->upload(numbers({10, 20}));
    sum_buffer = engine->upload(numbers({3, 4}));
  }
  void fill(Arguments& arguments) {
    arguments.share_parameters(std::vector<graph::BufferRef>{weight_buffer});
    arguments.donate(arguments.input("sum"), sum_buffer);
    arguments.upload(*engine, feed);
  }

  std::shared_ptr<graph::Engine> engine;
  std::shared_ptr<Hooked> program;
  Batch feed;
  graph::BufferRef weight_buffer, sum_buffer;
};

TEST_F(ArgumentsTest, ALentBufferComesBackChanged) {
  program->before = [&](std::span<const graph::BufferRef> inputs) {
    EXPECT_EQ(sum_buffer, nullptr);      // its owner has none during the run
    EXPECT_EQ(inputs[1].use_count(), 1); // so that the engine may write in place
    EXPECT_EQ(inputs[0], weight_buffer);
  };
  Arguments arguments(program);
  fill(arguments);
  const auto outputs = arguments.run();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(values_of(outputs[0]), (std::vector<float>{7}));
  EXPECT_EQ(outputs[1], nullptr);
  EXPECT_EQ(values_of(sum_buffer), (std::vector<float>{13, 44}));
  EXPECT_EQ(values_of(weight_buffer), (std::vector<float>{10, 20}));
}

TEST_F(ArgumentsTest, AFailedRunGivesBackWhatItWas) {
  program->before = [](std::span<const graph::BufferRef>) {
    throw Error(Code::unavailable, "no device", "");
  };
  Arguments arguments(program);
  fill(arguments);
  EXPECT_THROW(arguments.run(), Error);
  ASSERT_NE(sum_buffer, nullptr);
  EXPECT_EQ(values_of(sum_buffer), (std::vector<float>{3, 4}));
}

TEST_F(ArgumentsTest, WithoutARunEverythingComesBack) {
  {
    Arguments arguments(program);
    fill(arguments);
    EXPECT_EQ(sum_buffer, nullptr);
  }
  ASSERT_NE(sum_buffer, nullptr);
  EXPECT_EQ(values_of(sum_buffer), (std::vector<float>{3, 4}));
}

TEST_F(ArgumentsTest, WhatIsMissingIsNamed) {
  Arguments arguments(program);
  EXPECT_THROW(arguments.input("sums"), Error);
  try {
    arguments.share_parameters({});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::failed_precondition);
    EXPECT_NE(error.text().find("0 arrays of parameters, had 1"), std::string::npos)
        << error.text();
  }
  arguments.share_parameters(std::vector<graph::BufferRef>{weight_buffer});
  arguments.donate(arguments.input("sum"), sum_buffer);
  try {
    arguments.upload(*engine, Batch());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("x"), std::string::npos) << error.text();
  }
}

TEST_F(ArgumentsTest, SignaturesDifferByShapesAndTypes) {
  Batch longer, other;
  longer.set("x", numbers({1, 2, 3}));
  other.set("x", Tensor(DType::i32, {2}));
  EXPECT_NE(feed_signature(feed), feed_signature(longer));
  EXPECT_NE(feed_signature(feed), feed_signature(other));
  Batch same;
  same.set("x", numbers({5, 6}));
  EXPECT_EQ(feed_signature(feed), feed_signature(same));
}

} // namespace
} // namespace dllm::runtime
