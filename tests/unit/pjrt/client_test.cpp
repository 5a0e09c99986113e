// Clients, buffers and executables on real plugins.

#include "unit/pjrt/plugins.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dllm::pjrt {
namespace {

constexpr const char* kAdd = R"(
func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %c = "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  "func.return"(%c) : (tensor<4xf32>) -> ()
})";

constexpr const char* kCount = R"(
func.func public @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<1024xf32>
  %c = stablehlo.add %a, %one : tensor<1024xf32>
  return %c : tensor<1024xf32>
})";

constexpr const char* kSumOfAll = R"(
func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
})";

Tensor numbers(int64_t count, float first) {
  Tensor made(DType::f32, {count});
  std::iota(made.mutable_as<float>().begin(), made.mutable_as<float>().end(), first);
  return made;
}

std::vector<float> floats(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

std::vector<Array> run(const Executable& program, const std::vector<const Array*>& arguments,
                       std::span<const int64_t> keep = {}) {
  return std::move(program.run(std::span(&arguments, 1), keep).front());
}

using PjrtClient = OnPlugins;

TEST_P(PjrtClient, DescribesPluginAndDevices) {
  const auto made = client(3);
  EXPECT_EQ(made->platform_name(), "cpu");
  EXPECT_EQ(made->devices().size(), 3u);
  EXPECT_EQ(made->devices()[2].id(), 2);
  EXPECT_EQ(made->devices()[2].facts().kind, "cpu");
  EXPECT_TRUE(made->devices()[2].is_addressable());
  EXPECT_FALSE(made->devices()[2].memory_use().has_value());
  EXPECT_FALSE(made->devices()[0].memory_kinds().empty());
  EXPECT_EQ(made->plugin().version("stablehlo_minimum_version"), "0.9.0");
  EXPECT_GE(made->plugin().minor(), 81);
  EXPECT_EQ(&Plugin::load(path()), &made->plugin());
  EXPECT_NE(made->plugin().extension(4), nullptr); // layouts
  EXPECT_EQ(made->plugin().extension(999), nullptr);
}

TEST_P(PjrtClient, Adds) {
  const auto made = client();
  const auto program = made->compile(kAdd, {});
  const Device& device = made->devices()[0];
  const Array a = made->upload(numbers(4, 1), device), b = made->upload(numbers(4, 10), device);
  const auto out = run(*program, {&a, &b});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].dtype(), DType::f32);
  EXPECT_EQ(out[0].shape(), Shape({4}));
  EXPECT_EQ(out[0].device(), device.get());
  EXPECT_EQ(floats(out[0].read()), (std::vector<float>{11, 13, 15, 17}));

  const Compiled& facts = program->compiled();
  EXPECT_EQ(facts.output_types(), std::vector<DType>{DType::f32});
  EXPECT_EQ(facts.output_shapes(), std::vector<Shape>{Shape({4})});
  EXPECT_FALSE(facts.fingerprint().empty());
  EXPECT_GT(facts.optimized_program().size(), 100u);
  const auto memory = facts.memory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->arguments, 32);
  EXPECT_GE(memory->outputs, 16);
}

TEST_P(PjrtClient, LoadsWhatItSerialised) {
  const auto made = client();
  const std::string bytes = made->compile(kAdd, {})->compiled().serialize();
  const auto program = made->load(bytes);
  const Array a = made->upload(numbers(4, 1), made->devices()[0]);
  EXPECT_EQ(floats(run(*program, {&a, &a})[0].read()), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_THROW(made->load(bytes.substr(0, bytes.size() / 2)), Error);
  EXPECT_THROW(made->load("nonsense"), Error);
}

TEST_P(PjrtClient, DonatesInPlace) {
  const auto made = client();
  const auto program = made->compile(kCount, {});
  EXPECT_GE(program->compiled().memory()->aliased, 4096);
  const Array a = made->upload(numbers(1024, 0), made->devices()[0]);
  await(a.ready());
  const uintptr_t place = a.unsafe_pointer();
  const auto out = run(*program, {&a});
  EXPECT_TRUE(a.is_deleted());
  EXPECT_EQ(out[0].unsafe_pointer(), place);
  EXPECT_EQ(floats(out[0].read())[1023], 1024);

  const std::vector<int64_t> keep{0};
  const auto next = run(*program, {&out[0]}, keep);
  EXPECT_FALSE(out[0].is_deleted());
  EXPECT_NE(next[0].unsafe_pointer(), place);
  EXPECT_EQ(floats(out[0].read())[0], 1);
  EXPECT_EQ(floats(next[0].read())[0], 2);
}

// Borrowed storage is used where it lies, and never written to.
TEST_P(PjrtClient, SharesStorage) {
  const auto made = client();
  const auto program = made->compile(kCount, {});
  const Tensor mine = numbers(1024, 0);
  std::vector<Array> out;
  {
    const Array view = made->upload(mine, made->devices()[0], abi::HostBufferSemantics::zero_copy);
    EXPECT_EQ(view.unsafe_pointer(), reinterpret_cast<uintptr_t>(mine.bytes()));
    out = run(*program, {&view});
  }
  EXPECT_EQ(floats(out[0].read())[5], 6);
  EXPECT_EQ(mine.as<float>()[5], 5);
}

TEST_P(PjrtClient, RunsReplicasOnChosenDevices) {
  const auto made = client(4);
  CompileOptions options;
  options.replicas = 3;
  options.devices = {3, 0, 2};
  const auto program = made->compile(kSumOfAll, options);
  ASSERT_EQ(program->devices().size(), 3u);
  EXPECT_EQ(made->index_of(program->devices()[0]), 3);
  std::vector<Array> given;
  std::vector<std::vector<const Array*>> arguments(3);
  for (size_t d = 0; d < 3; ++d) {
    const Device& device = made->devices()[static_cast<size_t>(options.devices[d])];
    given.push_back(made->upload(numbers(2, static_cast<float>(d)), device));
  }
  for (size_t d = 0; d < 3; ++d) arguments[d] = {&given[d]};
  const auto out = program->run(arguments);
  for (size_t d = 0; d < 3; ++d)
    EXPECT_EQ(floats(out[d][0].read()), (std::vector<float>{3, 6})) << d;
}

TEST_P(PjrtClient, PassesTheCompilersWordsOn) {
  const auto made = client();
  const std::string wrong = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                            " %c = stablehlo.foo %a : tensor<4xf32>\n return %c : tensor<4xf32>\n}";
  test::expect_error(Code::unknown, "PJRT_Client_Compile", [&] { made->compile(wrong, {}); });
  test::expect_error(Code::unknown, "stablehlo.foo", [&] { made->compile(wrong, {}); });
  CompileOptions options;
  options.flags = {parse_flag("xla_no_such=1")};
  test::expect_error(Code::invalid_argument, "xla_no_such", [&] { made->compile(kAdd, options); });
}

DLLM_ON_PLUGINS(PjrtClient);

} // namespace
} // namespace dllm::pjrt
