// Loading: versions, short tables, missing slots, failures of the first calls. Real files that are
// no plugins are in setup_test.cpp.

#include "pjrt/plugin/client.h"
#include "unit/pjrt/fake/fake_plugin.h"

#include <gtest/gtest.h>

namespace dllm::pjrt {
namespace {

using test::expect_error;

constexpr const char* kProgram = "func.func @main(%0: tensor<2xf32>) -> tensor<2xf32> {}";

TEST(FakeLoad, ReadsWhatAPluginSaysOfItself) {
  const FakePlugin fake(true);
  const Plugin& plugin = Plugin::load(fake.path());
  EXPECT_EQ(&Plugin::load(fake.path()), &plugin);
  EXPECT_EQ(plugin.minor(), 116);
  EXPECT_EQ(plugin.version("stablehlo_current_version"), "1.20.0");
  EXPECT_NE(plugin.extension(4711), nullptr);
  EXPECT_EQ(plugin.extension(4), nullptr);
  EXPECT_EQ(fake->count("PJRT_Plugin_Initialize"), 1);
  fake.expect_clean();
}

TEST(FakeLoad, RefusesVersionsItCannotDrive) {
  const std::pair<int, const char*> versions[] = {{53, "is too old: its API is 0.53"},
                                                  {56, "has API 0.56, which this library cannot"}};
  for (const auto& [minor, text] : versions) {
    const FakePlugin fake(true);
    fake->set("minor", minor);
    expect_error(Code::failed_precondition, text, [&] { Plugin::load(fake.path()); });
    EXPECT_TRUE(fake.calls().empty()) << "nothing of it may be called";
  }
}

TEST(FakeLoad, RefusesAnotherMajorVersionAndNoTable) {
  const FakePlugin another(true), empty(true);
  another->set("major", 1);
  expect_error(Code::failed_precondition, "has API 1.116, which this library cannot",
               [&] { Plugin::load(another.path()); });
  empty->set("slots", -1);
  expect_error(Code::unavailable, "has no table of functions", [&] { Plugin::load(empty.path()); });
}

TEST(FakeLoad, DrivesOlderAndNewerOnes) {
  for (const int minor : {57, 81, 106, 116, 200}) {
    const FakePlugin fake(true);
    fake->set("minor", minor);
    {
      const auto client = Client::create(Plugin::load(fake.path()), {});
      const auto program = client->compile(kProgram, {});
      const Array x = client->upload(Tensor(DType::f32, {2}), client->devices()[0]);
      const std::vector<const Array*> arguments{&x};
      EXPECT_EQ(program->run(std::span(&arguments, 1)).front().front().read().shape(), Shape({2}));
    }
    fake.expect_clean();
  }
}

TEST(FakeLoad, NamesWhatAShortTableLacks) {
  for (const int slots : {1, 3, 4, 10, 20, 51}) {
    const FakePlugin fake(true);
    fake->set("slots", slots);
    const Error error = test::error_of([&] {
      const auto client = Client::create(Plugin::load(fake.path()), {});
      client->compile(kProgram, {});
      const Array x = client->upload(Tensor(DType::f32, {2}), client->devices()[0]);
    });
    EXPECT_EQ(error.code(), Code::unimplemented) << slots;
    EXPECT_NE(error.text().find("is not in this plugin (API 0.116"), std::string::npos)
        << error.text();
  }
}

TEST(FakeLoad, NamesASlotThatIsEmpty) {
  for (const char* call : {"PJRT_Plugin_Initialize", "PJRT_Client_Create", "PJRT_Client_Compile",
                           "PJRT_LoadedExecutable_Execute", "PJRT_Buffer_ToHostBuffer"}) {
    const FakePlugin fake(true);
    fake->remove_slot(call);
    expect_error(Code::unimplemented, std::string(call) + " is not in this plugin", [&] {
      const auto client = Client::create(Plugin::load(fake.path()), {});
      const auto program = client->compile(kProgram, {});
      const Array x = client->upload(Tensor(DType::f32, {2}), client->devices()[0]);
      const std::vector<const Array*> arguments{&x};
      program->run(std::span(&arguments, 1)).front().front().read();
    });
    fake.expect_clean();
  }
}

// What is only nice to know may be missing.
TEST(FakeLoad, DoesWithoutFacts) {
  const FakePlugin fake(true);
  for (const char* call :
       {"PJRT_Plugin_Attributes", "PJRT_Device_MemoryStats", "PJRT_Executable_GetCostAnalysis",
        "PJRT_Executable_Fingerprint", "PJRT_Executable_GetCompiledMemoryStats"}) {
    fake->remove_slot(call);
  }
  const auto client = Client::create(Plugin::load(fake.path()), {});
  EXPECT_FALSE(client->devices()[0].memory_use().has_value());
  const auto program = client->compile(kProgram, {});
  EXPECT_FALSE(program->compiled().memory().has_value());
  EXPECT_TRUE(program->compiled().costs().empty());
  EXPECT_EQ(program->compiled().fingerprint(), "");
}

TEST(FakeLoad, CarriesTheTextOfAFailingStart) {
  for (const char* call : {"PJRT_Plugin_Initialize", "PJRT_Plugin_Attributes"}) {
    const FakePlugin fake(true);
    fake->fail_at(call, 1, 14, "the chip is in use by process 42.");
    expect_error(Code::unavailable, std::string(call) + ": the chip is in use by process 42",
                 [&] { Plugin::load(fake.path()); });
    fake.expect_clean();
  }
}

TEST(FakeLoad, AClientWithoutADeviceIsNone) {
  const FakePlugin fake(true);
  fake->set("devices", 0);
  expect_error(Code::unavailable, "has no device here",
               [&] { Client::create(Plugin::load(fake.path()), {}); });
  fake.expect_clean();
  expect_error(Code::invalid_argument, "Unexpected option name passed to PJRT_Client_Create: other",
               [&] {
                 Client::create(Plugin::load(fake.path()), {{"other", true}});
               });
  expect_error(Code::invalid_argument, "has type index 4 but expected type index is 1", [&] {
    Client::create(Plugin::load(fake.path()), {{"cpu_device_count", true}});
  });
  fake.expect_clean();
}

} // namespace
} // namespace dllm::pjrt
