// Every call the engine makes from its start to its end, failed once in every place.

#include "unit/pjrt/fake/fake_engine.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <optional>

namespace dllm::pjrt {
namespace {

// Three steps with state given up to each, all results read.
void work(graph::Engine& engine, graph::Program& program) {
  std::vector<BufferRef> inputs = counter_inputs(engine);
  for (int step = 0; step < 3; ++step) {
    const std::vector<BufferRef> results = program.run(inputs);
    inputs[0] = results[0];
    ASSERT_EQ(results[1]->read().as<float>()[0], 7);
  }
  ASSERT_TRUE(same_bytes(inputs[0]->read(), counting({256})));
  ASSERT_TRUE(same_bytes(inputs[1]->read(), counting({1}, 7)));
  engine.trim();
}

// The whole life of an engine. A failure while it works must not keep it from working again.
void everything(const FakePlugin& fake, const std::string& cache) {
  const auto engine = make_engine(fake_options(fake, cache));
  const auto program = engine->compile(counter());
  ASSERT_GE(program->plan().compiled.alias_bytes, 1024);
  ASSERT_EQ(engine->describe()["platform"], "fake");
  ASSERT_FALSE(program->text("optimized").empty());
  try {
    work(*engine, *program);
  } catch (const Error&) {
    work(*engine, *program);
    throw;
  }
}

std::map<std::string, int64_t> counts_of(const FakePlugin& fake) {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : fake.calls()) ++counts[name];
  return counts;
}

// Calls whose failure ends nothing: destroying; the code of another error; the two that fetch
// results ahead, which are fetched again.
bool may_be_silent(const std::string& call) {
  return call.ends_with("_Destroy") || call == "PJRT_Error_GetCode" ||
         call == "PJRT_Event_OnReady" || call == "PJRT_Buffer_ToHostBuffer";
}

void fail_each(const FakePlugin& fake, const std::string& call, int64_t count, bool may_be_silent,
               const std::function<void()>& life) {
  for (int64_t nth = 1; nth <= count; ++nth) {
    for (const int code : {3, 8, 13, 14}) {
      SCOPED_TRACE(call + " no. " + std::to_string(nth) + " with code " + std::to_string(code));
      fake->reset();
      fake->fail_at(call.c_str(), nth, code, "the reason why.");
      std::optional<Error> error;
      try {
        life();
      } catch (const Error& caught) {
        error = caught;
      }
      fake.expect_clean();
      if (!error) {
        EXPECT_TRUE(may_be_silent) << "the failure went unnoticed";
        continue;
      }
      EXPECT_EQ(static_cast<int>(error->code()), code) << error->text();
      EXPECT_NE(error->text().find(call + ": the reason why"), std::string::npos) << error->text();
    }
  }
}

TEST(FakeEngineCalls, FailOneByOneAndLeaveNothingBehind) {
  const FakePlugin fake;
  everything(fake, "off");
  fake->reset();
  everything(fake, "off");
  fake.expect_clean();
  for (const auto& [call, count] : counts_of(fake))
    fail_each(fake, call, count, may_be_silent(call), [&] { everything(fake, "off"); });
}

// With a cache there are two starts: one that compiles and writes, one that loads.
TEST(FakeEngineCalls, FailOneByOneWithACache) {
  const FakePlugin fake;
  const test::TempFolder folder(true);
  int made = 0;
  const auto life = [&] {
    const std::string cache = folder.path(std::to_string(made++));
    everything(fake, cache);
    everything(fake, cache);
  };
  life();
  fake->reset();
  life();
  fake.expect_clean();
  const auto counts = counts_of(fake);
  EXPECT_EQ(counts.at("PJRT_Client_Compile"), 1);
  fail_each(fake, "PJRT_Client_Compile", 1, false, life);
  // Without these the program is not kept, or compiled once more.
  for (const char* call : {"PJRT_Executable_Serialize", "PJRT_Executable_DeserializeAndLoad",
                           "PJRT_LoadedExecutable_GetExecutable"})
    fail_each(fake, call, counts.at(call), true, life);
}

// Compiling for hardware that is not there.
TEST(FakeEngineCalls, FailOneByOneForATarget) {
  const FakePlugin fake;
  Options options = fake_options(fake);
  options.set_str("target", "v5e:2x4");
  const auto life = [&] {
    const auto engine = make_engine(options);
    ASSERT_EQ(engine->device_count(), 8);
    ASSERT_EQ(engine->i64("memory_limit"), int64_t{1} << 30);
    ASSERT_EQ(engine->describe()["platform"], "fake");
    const auto program = engine->compile(counter());
    ASSERT_EQ(program->plan().compiled.alias_bytes, 1024);
    ASSERT_FALSE(program->text("optimized").empty());
  };
  life();
  fake->reset();
  life();
  fake.expect_clean();
  const auto counts = counts_of(fake);
  EXPECT_EQ(counts.count("PJRT_Client_Create"), 0u);
  for (const auto& [call, count] : counts) fail_each(fake, call, count, may_be_silent(call), life);

  fake->reset();
  fake->set("compile_limit", 1000);
  test::expect_error(Code::resource_exhausted, "does not fit: needs 1032 bytes, has 1000 bytes",
                     life);
  fake.expect_clean();
}

} // namespace
} // namespace dllm::pjrt
