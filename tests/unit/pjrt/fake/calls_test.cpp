// Every call that clients, arrays and executables make, failed once in every place: a clear error,
// nothing left behind, and the next attempt works.

#include "pjrt/plugin/client.h"
#include "unit/pjrt/fake/fake_plugin.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

namespace dllm::pjrt {
namespace {

constexpr const char* kProgram =
    "func.func @main(%0: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}, %1: tensor<4xi32>) -> "
    "(tensor<4xi32>, tensor<2x3xf32>, tensor<f32>) {}";

Tensor counted(DType dtype, Shape shape) {
  Tensor made(dtype, std::move(shape));
  for (int64_t i = 0; i < made.byte_size(); ++i)
    static_cast<char*>(static_cast<void*>(made.mutable_bytes()))[i] = static_cast<char>(i + 1);
  return made;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.byte_size() == b.byte_size() && std::memcmp(a.bytes(), b.bytes(), a.byte_size()) == 0;
}

// All of it: client, compiling, writing down and loading again, upload, a run, reading, facts.
void everything(const FakePlugin& fake) {
  const auto client = Client::create(Plugin::load(fake.path()), {{"cpu_device_count", int64_t{2}}});
  const Device& device = client->devices()[1];
  CompileOptions options;
  options.devices = {device.id()};
  const auto compiled = client->compile(kProgram, options);
  const auto program = client->load(compiled->compiled().serialize());
  ASSERT_EQ(compiled->compiled().output_types(), program->compiled().output_types());
  ASSERT_EQ(program->compiled().output_shapes()[1], Shape({2, 3}));
  ASSERT_EQ(program->compiled().memory()->aliased, 24);
  ASSERT_FALSE(program->compiled().costs().empty());
  ASSERT_FALSE(program->compiled().fingerprint().empty());
  ASSERT_FALSE(program->compiled().optimized_program().empty());
  const Tensor state = counted(DType::f32, {2, 3}), ids = counted(DType::i32, {4});
  Array x = client->upload(state, device), y = client->upload(ids, device);
  const std::vector<const Array*> arguments{&x, &y};
  const auto results = std::move(program->run(std::span(&arguments, 1)).front());
  ASSERT_TRUE(x.is_deleted());
  ASSERT_FALSE(y.is_deleted());
  await(results[1].ready());
  ASSERT_TRUE(same_bytes(results[0].read(), ids));
  ASSERT_TRUE(same_bytes(results[1].read(), state));
  ASSERT_EQ(results[2].shape(), Shape({}));
  ASSERT_EQ(results[1].device_bytes(), 24);
  ASSERT_EQ(results[1].device(), device.get());
  ASSERT_EQ(device.memory_use()->used, 24 + 16 + 16 + 4);
}

// How often each call is made.
std::map<std::string, int64_t> counts_of(const FakePlugin& fake) {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : fake.calls()) ++counts[name];
  return counts;
}

// Calls whose failure need not end anything: destroying, and the code of another error.
bool may_be_silent(const std::string& call) {
  return call.ends_with("_Destroy") || call == "PJRT_Error_GetCode";
}

TEST(FakeCalls, FailOneByOneAndLeaveNothingBehind) {
  const FakePlugin fake;
  Plugin::load(fake.path()); // the calls of loading: load_test.cpp
  fake->reset();
  everything(fake);
  fake.expect_clean();
  const auto counts = counts_of(fake);
  EXPECT_GT(counts.size(), 30u);
  for (const auto& [call, count] : counts) {
    for (int64_t nth = 1; nth <= count; ++nth) {
      for (const int code : {3, 8, 13, 14}) {
        SCOPED_TRACE(call + " no. " + std::to_string(nth) + " with code " + std::to_string(code));
        fake->reset();
        fake->fail_at(call.c_str(), nth, code, "the reason why.");
        std::optional<Error> error;
        try {
          everything(fake);
        } catch (const Error& caught) {
          error = caught;
        }
        fake.expect_clean();
        if (!error) {
          EXPECT_TRUE(may_be_silent(call)) << "the failure went unnoticed";
          continue;
        }
        EXPECT_EQ(static_cast<int>(error->code()), code);
        EXPECT_EQ(error->text(), call + ": the reason why");
      }
    }
  }
  fake->reset();
  everything(fake);
  fake.expect_clean();
}

// Facts that plugins need not offer.
TEST(FakeCalls, AnswerUnimplementedForFacts) {
  const FakePlugin fake;
  for (const char* call : {"PJRT_Device_MemoryStats", "PJRT_Executable_GetCostAnalysis",
                           "PJRT_Executable_Fingerprint", "PJRT_Executable_GetCompiledMemoryStats"})
    fake->fail_at(call, 0, 12, "not here");
  {
    const auto client = Client::create(Plugin::load(fake.path()), {});
    EXPECT_FALSE(client->devices()[0].memory_use().has_value());
    const auto program = client->compile(kProgram, {});
    EXPECT_FALSE(program->compiled().memory().has_value());
    EXPECT_TRUE(program->compiled().costs().empty());
    EXPECT_EQ(program->compiled().fingerprint(), "");
  }
  fake.expect_clean();
}

// An error whose code cannot be asked for is still an error, and both are destroyed.
TEST(FakeCalls, AnErrorWithoutACodeIsUnknown) {
  const FakePlugin fake;
  fake->fail_at("PJRT_Client_Create", 1, 8, "full");
  fake->fail_at("PJRT_Error_GetCode", 1, 13, "broken");
  test::expect_error(Code::unknown, "PJRT_Client_Create: full",
                     [&] { Client::create(Plugin::load(fake.path()), {}); });
  fake.expect_clean();
}

TEST(FakeCalls, CarryTheTextOfTheCompiler) {
  const FakePlugin fake;
  const auto client = Client::create(Plugin::load(fake.path()), {});
  test::expect_error(Code::unknown, "PJRT_Client_Compile: conversion requires module with 'main'",
                     [&] { client->compile("module {}", {}); });
  test::expect_error(Code::unknown, "error: the head of main is not understood",
                     [&] { client->compile("func.func @main(%0: tensor<2xf31>) {}", {}); });
  CompileOptions wrong;
  wrong.devices = {7};
  test::expect_error(Code::invalid_argument, "no device 7 for replica 0",
                     [&] { client->compile(kProgram, wrong); });
  test::expect_error(Code::invalid_argument, "these bytes are no executable",
                     [&] { client->load("garbage"); });
}

TEST(FakeCalls, ReportWhenMemoryIsFull) {
  const FakePlugin fake;
  {
    const auto client = Client::create(Plugin::load(fake.path()), {});
    fake->set("compile_limit", 50);
    const Error compile = test::error_of([&] { client->compile(kProgram, {}); });
    EXPECT_EQ(compile.code(), Code::resource_exhausted);
    EXPECT_NE(compile.text().find("Ran out of memory in memory space hbm. Used 60 of 50 bytes"),
              std::string::npos)
        << compile.text();
    EXPECT_NE(compile.hint(), "");
    fake->set("compile_limit", 0);
    fake->set("memory_limit", 50);
    const Device& device = client->devices()[0];
    const auto program = client->compile(kProgram, {});
    const Array x = client->upload(Tensor(DType::f32, {2, 3}), device);
    const Array y = client->upload(Tensor(DType::i32, {4}), device);
    test::expect_error(Code::resource_exhausted, "trying to allocate 24 bytes", [&] {
      client->upload(Tensor(DType::f32, {2, 3}), device);
    });
    const std::vector<const Array*> arguments{&x, &y};
    test::expect_error(Code::resource_exhausted, "trying to allocate 16 bytes",
                       [&] { program->run(std::span(&arguments, 1)); });
    EXPECT_FALSE(x.is_deleted());
  }
  fake.expect_clean();
}

// The host's memory is held until the plugin has read it, and the result's until it is written.
TEST(FakeCalls, HoldTheHostsMemoryUntilTransfersEnd) {
  const FakePlugin fake;
  {
    const auto client = Client::create(Plugin::load(fake.path()), {});
    fake->set("transfer_ms", 30);
    const Tensor numbers = counted(DType::f32, {1000});
    Tensor sent = counted(DType::f32, {1000});
    const Array x = client->upload(sent, client->devices()[0]);
    sent = Tensor(); // the only reference that is ours
    EXPECT_TRUE(same_bytes(x.read(), numbers));
  }
  fake.expect_clean();
}

} // namespace
} // namespace dllm::pjrt
