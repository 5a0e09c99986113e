// An engine of several devices on the fake plugin: what fails on one of them, what is held, what is
// destroyed.

#include "unit/pjrt/fake/fake_engine.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::pjrt {
namespace {

using graph::Axis;
using graph::AxisSet;
using graph::Layout;
using test::error_of;
using test::expect_error;

constexpr int64_t kRanks = 4;

std::shared_ptr<graph::Engine> fake_mesh(const FakePlugin& fake, int64_t in_flight = 2) {
  fake->set("devices", kRanks);
  Options options = fake_options(fake, "off", in_flight);
  options.set_str("mesh", "fsdp=4");
  return make_engine(options);
}

std::vector<BufferRef> cut_inputs(graph::Engine& engine) {
  return {engine.upload_cut(counting({256}), false, Layout().cut(Axis::fsdp, 0)),
          engine.upload(counting({1}, 7))};
}

TEST(FakeMesh, StateLivesOnEveryDeviceAndIsDestroyed) {
  const FakePlugin fake;
  {
    const auto engine = fake_mesh(fake);
    const auto program = engine->compile(cut_counter());
    std::vector<BufferRef> inputs = cut_inputs(*engine);
    for (int step = 0; step < 10; ++step) {
      auto results = program->run(inputs);
      inputs[0] = results[0];
      EXPECT_EQ(results[1]->read().as<float>()[0], 7);
    }
    engine->trim();
    EXPECT_TRUE(same_bytes(inputs[0]->read(), counting({256})));
    EXPECT_EQ(fake->live("buffer"), 2 * kRanks);
    EXPECT_EQ(fake->live("event"), 0);
    EXPECT_EQ(fake->bytes_in_use(), 1024 + 4 * kRanks);
    EXPECT_EQ(engine->i64("memory_used"), 1024 + 4 * kRanks);
    EXPECT_EQ(fake->count(kExecute), 10) << "one call for all devices";
  }
  fake.expect_clean();
}

TEST(FakeMesh, BoundsTheRunsInFlight) {
  const FakePlugin fake;
  {
    const auto engine = fake_mesh(fake, 2);
    const auto program = engine->compile(cut_counter());
    fake->set("run_ms", 30);
    std::vector<BufferRef> inputs = cut_inputs(*engine);
    for (int step = 0; step < 5; ++step) inputs[0] = program->run(inputs)[0];
    EXPECT_EQ(fake->most_in_flight(), 2);
    EXPECT_EQ(fake->count("PJRT_Event_Await"), 3 * kRanks) << "a run is over where all devices are";
  }
  fake.expect_clean();
}

// The results are read from rank 0, which went well.
TEST(FakeMesh, ADeviceThatFailsIsNamedByItsRank) {
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const FakePlugin fake;
    {
      const auto engine = fake_mesh(fake);
      const auto program = engine->compile(cut_counter());
      std::vector<BufferRef> inputs = cut_inputs(*engine);
      fake->poison_run(rank + 1, 14, "a device was lost.");
      const auto results = program->run(inputs);
      inputs[0] = results[0];
      const Error error = error_of([&] { results[1]->read(); });
      EXPECT_EQ(error.code(), Code::unavailable);
      EXPECT_TRUE(contains(error.text(), "graph cut_counter on rank " + std::to_string(rank)))
          << error.text();
      EXPECT_TRUE(contains(error.hint(), "state lost")) << error.hint();
      EXPECT_THROW(program->run(inputs), graph::StateLost);
      EXPECT_EQ(fake->count(kExecute), 1) << "results of a failed run must not be run on";
      inputs = cut_inputs(*engine);
      EXPECT_EQ(program->run(inputs)[1]->read().as<float>()[0], 7);
    }
    fake.expect_clean();
  }
}

TEST(FakeMesh, AFailedLaunchThatTookPartsHasLostTheState) {
  const FakePlugin fake;
  {
    const auto engine = fake_mesh(fake);
    const auto program = engine->compile(cut_counter());
    std::vector<BufferRef> inputs = cut_inputs(*engine);
    fake->fail_at(kExecute, 1, 8, "full");
    EXPECT_FALSE(contains(error_of([&] { program->run(inputs); }).hint(), "state lost"));
    EXPECT_TRUE(same_bytes(inputs[0]->read(), counting({256}))) << "nothing was lost";
    fake->set("consumes_on_failure", 1);
    fake->fail_at(kExecute, 1, 13, "stopped half-way");
    EXPECT_THROW(program->run(inputs), graph::StateLost);
    expect_error(Code::failed_precondition, "taken over", [&] { inputs[0]->read(); });
  }
  fake.expect_clean();
}

TEST(FakeMesh, AnUploadThatFailsHalfWayKeepsNothing) {
  const FakePlugin fake;
  {
    const auto engine = fake_mesh(fake);
    fake->fail_at("PJRT_Client_BufferFromHostBuffer", 3, 8, "full");
    expect_error(Code::resource_exhausted, "full", [&] { cut_inputs(*engine); });
    EXPECT_EQ(fake->live("buffer"), 0);
    EXPECT_EQ(engine->i64("memory_used"), 0);
    const std::vector<Tensor> pieces(kRanks, counting({8}));
    fake->fail_at("PJRT_Client_BufferFromHostBuffer", 2, 8, "full");
    expect_error(Code::resource_exhausted, "full",
                 [&] { engine->upload_pieces(pieces, AxisSet(Axis::fsdp), false); });
    EXPECT_EQ(fake->live("buffer"), 0);
    EXPECT_EQ(cut_inputs(*engine)[0]->memory_bytes(), 1024);
  }
  fake.expect_clean();
}

} // namespace
} // namespace dllm::pjrt
