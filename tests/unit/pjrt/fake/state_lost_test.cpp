// Runs that fail: what is left of the state, and what the error says of it.

#include "unit/pjrt/fake/fake_engine.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::pjrt {
namespace {

using test::error_of;
using test::expect_error;

// A launch that finds no memory has taken nothing.
TEST(FakeStateLost, KeepsItsStateWhenARunFindsNoMemory) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    fake->set("memory_limit", 1028);
    const Error error = error_of([&] { program->run(inputs); });
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_TRUE(
        contains(error.text(), "graph counter: PJRT_LoadedExecutable_Execute: Out of memory"))
        << error.text();
    EXPECT_FALSE(contains(error.hint(), "state lost")) << error.hint();
    expect_error(Code::resource_exhausted, "trying to allocate 4000 bytes",
                 [&] { engine->upload(counting({1000})); });
    fake->set("memory_limit", 0);
    EXPECT_EQ(program->run(inputs)[1]->read().as<float>()[0], 7);
  }
  fake.expect_clean();
}

TEST(FakeStateLost, SaysWhenAFailedLaunchHasTakenTheState) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    fake->set("consumes_on_failure", 1);
    fake->fail_at(kExecute, 1, 13, "stopped half-way");
    const Error error = error_of([&] { program->run(inputs); });
    EXPECT_EQ(error.code(), Code::internal);
    EXPECT_TRUE(contains(error.hint(), "state lost")) << error.hint();
    expect_error(Code::failed_precondition, "taken over", [&] { inputs[0]->read(); });
    EXPECT_EQ(inputs[1]->read().as<float>()[0], 7);
    inputs[0] = engine->upload(counting({256}));
    EXPECT_EQ(program->run(inputs)[1]->read().as<float>()[0], 7);
  }
  fake.expect_clean();
}

// The launch went well, but no caller can wait for its end: the state it took is lost as well.
TEST(FakeStateLost, SaysWhenALaunchThatCannotBeWaitedForHasTakenTheState) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    fake->fail_at("PJRT_Buffer_ReadyEvent", 1, 13, "no event");
    const Error error = error_of([&] { program->run(inputs); });
    EXPECT_TRUE(contains(error.text(), "graph counter: PJRT_Buffer_ReadyEvent: no event"))
        << error.text();
    EXPECT_TRUE(contains(error.hint(), "state lost")) << error.hint();
  }
  fake.expect_clean();
}

// The device goes while a run is under way: its results say so, and so does what is made of them.
TEST(FakeStateLost, ReportsThatADeviceIsLost) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    fake->poison_run(2, 14, "device 0 was lost.");
    const auto first = program->run(inputs);
    EXPECT_EQ(first[1]->read().as<float>()[0], 7);
    inputs[0] = first[0];
    const auto second =
        program->run(std::vector<BufferRef>{first[0], inputs[1]}); // keeps the state
    std::vector<BufferRef> moved{second[0], inputs[1]};
    const Error kept = error_of([&] { second[1]->read(); });
    EXPECT_EQ(kept.code(), Code::unavailable);
    EXPECT_TRUE(contains(kept.text(), "graph counter: PJRT_Event_Await: device 0 was lost"))
        << kept.text();
    EXPECT_TRUE(contains(kept.hint(), "make a new engine")) << kept.hint();
    EXPECT_FALSE(contains(kept.hint(), "state lost")) << kept.hint();
    const int64_t runs = fake->count(kExecute);
    EXPECT_EQ(error_of([&] { program->run(moved); }).code(), Code::unavailable);
    EXPECT_EQ(error_of([&] { second[0]->read(); }).code(), Code::unavailable);
    EXPECT_EQ(fake->count(kExecute), runs) << "results of a failed run must not be run on";
  }
  fake.expect_clean();
}

// As above with state given up, and with more runs started before any result was read.
TEST(FakeStateLost, ReportsThatStateIsLostWithTheDevice) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake, 4);
    const auto program = engine->compile(counter());
    fake->set("run_ms", 20);
    fake->poison_run(1, 14, "device 0 was lost.");
    std::vector<BufferRef> inputs = counter_inputs(*engine), losses;
    for (int step = 0; step < 3; ++step) {
      auto results = program->run(inputs);
      inputs[0] = std::move(results[0]);
      losses.push_back(results[1]);
    }
    for (const BufferRef& loss : losses) {
      const Error error = error_of([&] { loss->read(); });
      EXPECT_EQ(error.code(), Code::unavailable);
      EXPECT_TRUE(contains(error.text(), "device 0 was lost")) << error.text();
      EXPECT_TRUE(contains(error.hint(), "state lost")) << error.hint();
    }
    EXPECT_EQ(error_of([&] { program->run(inputs); }).code(), Code::unavailable);
    EXPECT_EQ(fake->count(kExecute), 3);
    fake->set("run_ms", 0);
    inputs[0] =
        engine->upload(counting({256})); // another device of the same plugin may still be there
    EXPECT_EQ(program->run(inputs)[1]->read().as<float>()[0], 7);
  }
  fake.expect_clean();
}

// From some moment on every call fails, asking for codes and destroying included.
TEST(FakeStateLost, SurvivesAPluginThatAnswersNothing) {
  for (int moment = 0; moment < 4; ++moment) {
    SCOPED_TRACE(moment);
    const FakePlugin fake;
    const auto die_at = [&](int when) {
      if (moment == when) fake->fail_at("*", 0, 13, "gone");
    };
    {
      const auto engine = fake_engine(fake);
      const auto program = engine->compile(counter());
      die_at(0);
      const Error error = error_of([&] {
        std::vector<BufferRef> inputs = counter_inputs(*engine);
        die_at(1);
        auto results = program->run(inputs);
        inputs[0] = std::move(results[0]);
        die_at(2);
        results = program->run(inputs);
        die_at(3);
        results[1]->read();
      });
      EXPECT_EQ(error.code(), Code::unknown) << error.text();
      EXPECT_TRUE(contains(error.text(), "gone")) << error.text();
      EXPECT_THROW(engine->compile(counter()), Error);
      engine->trim();
    }
    fake.expect_clean();
  }
}

} // namespace
} // namespace dllm::pjrt
