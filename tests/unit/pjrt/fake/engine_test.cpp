// What the engine never requests from a plugin, what it bounds, and what it holds on to.
// Runs that fail: state_lost_test.cpp.

#include "unit/pjrt/fake/fake_engine.h"

#include "base/task.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <thread>

namespace dllm::pjrt {
namespace {

using test::error_of;
using test::expect_error;

TEST(FakeEngine, RefusesWrongInputsBeforeThePluginSeesThem) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake), other = fake_engine(fake);
    const auto program = engine->compile(counter());
    const BufferRef state = engine->upload(counting({256})), step = engine->upload(counting({1}));
    const std::vector<std::vector<BufferRef>> wrong = {
        {},
        {state},
        {state, step, step},
        {state, nullptr},
        {step, state},
        {engine->upload(Tensor(DType::i32, {256})), step}, // as many bytes
        {engine->upload(counting({2, 128})), step},
        {other->upload(counting({256})), step},
    };
    for (const auto& inputs : wrong)
      EXPECT_EQ(error_of([&] { program->run(inputs); }).code(), Code::invalid_argument);
    EXPECT_EQ(fake->count(kExecute), 0);

    std::vector<BufferRef> inputs = counter_inputs(*engine);
    program->run(inputs);
    expect_error(Code::failed_precondition, "input state of graph counter was taken over",
                 [&] { program->run(inputs); });
    EXPECT_EQ(fake->count(kExecute), 1);
  }
  fake.expect_clean();
}

TEST(FakeEngine, HoldsWeightsInBlocksAsTheyAre) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    for (const WeightFormat* format : weight_formats()) {
      if (!format->is_blocks()) continue;
      const int64_t k = 2 * format->block;
      Tensor weight(DType::u8, {2, format->row_bytes(k)});
      weight.set_format(format);
      const BufferRef codes = engine->upload_weight(weight, false);
      EXPECT_EQ(codes->memory_bytes(), weight.byte_size()) << format->name;
      EXPECT_EQ(codes->read().format(), format);
      auto graph = std::make_shared<graph::Graph>("product");
      const graph::Value x = graph->input("x", DType::f32, {1, k});
      const graph::Value w = graph->input("w", {weight.shape(), DType::u8, {}, format}, true);
      graph->output("y", linear(x, w));
      const auto program = engine->compile(graph);
      EXPECT_EQ(program->plan().input_bytes, 4 * k + weight.byte_size()) << format->name;
      // Bytes without a format are not the weight.
      const BufferRef row = engine->upload(Tensor(DType::f32, {1, k}));
      const BufferRef bytes = engine->upload(Tensor(DType::u8, weight.shape()));
      expect_error(Code::invalid_argument, std::string("is ") + format->name, [&] {
        program->run(std::vector<BufferRef>{row, bytes});
      });
    }
  }
  fake.expect_clean();
}

TEST(FakeEngine, NeedsStateToBeChangedInPlace) {
  const FakePlugin fake;
  fake->set("donates", 0);
  const auto engine = fake_engine(fake);
  const Error error = error_of([&] { engine->compile(counter()); });
  EXPECT_EQ(error.code(), Code::internal);
  EXPECT_TRUE(contains(error.text(), "changes 1024 bytes of state")) << error.text();
}

TEST(FakeEngine, MayBeTooSmallForAProgram) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    fake->set("compile_limit", 1000);
    const Error error = error_of([&] { engine->compile(counter()); });
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_TRUE(contains(error.text(), "Used 1032 of 1000 bytes")) << error.text();
    fake->set("compile_limit", 0);
    EXPECT_NE(engine->compile(counter()), nullptr);
  }
  fake.expect_clean();
}

TEST(FakeEngine, StartsNothingWhenItIsCancelled) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake, 1);
    const auto program = engine->compile(counter());
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    Task before;
    before.cancel();
    expect_error(Code::cancelled, "", [&] { program->run(inputs, &before); });
    EXPECT_EQ(fake->count(kExecute), 0);

    // While it waits for an earlier run to end.
    fake->set("run_ms", 600); // far longer than the other thread needs, even on a busy machine
    auto results = program->run(inputs);
    inputs[0] = results[0];
    results.clear();
    Task during;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      during.cancel();
    });
    const Error error = error_of([&] { program->run(inputs, &during); });
    other.join();
    EXPECT_EQ(error.code(), Code::cancelled);
    EXPECT_EQ(error.hint(), "");
    EXPECT_EQ(fake->count(kExecute), 1);
    EXPECT_TRUE(same_bytes(inputs[0]->read(), counting({256}))) << "nothing was lost";
  }
  fake.expect_clean();
}

TEST(FakeEngine, BoundsTheRunsInFlight) {
  for (const int64_t limit : {1, 2, 4}) {
    const FakePlugin fake;
    {
      const auto engine = fake_engine(fake, limit);
      const auto program = engine->compile(counter());
      fake->set("run_ms", 40);
      std::vector<BufferRef> inputs = counter_inputs(*engine);
      for (int step = 0; step < 7; ++step) inputs[0] = program->run(inputs)[0];
      EXPECT_EQ(fake->most_in_flight(), limit);
      EXPECT_EQ(fake->count("PJRT_Event_Await"), 7 - limit);
    }
    fake.expect_clean();
  }
}

// Steps free what they use up: memory does not grow with them.
TEST(FakeEngine, DestroysWhatItGaveUp) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    for (int step = 0; step < 20; ++step) inputs[0] = program->run(inputs)[0];
    engine->trim();
    EXPECT_EQ(fake->live("buffer"), 2);
    EXPECT_EQ(fake->live("event"), 0);
    EXPECT_EQ(fake->bytes_in_use(), 1028);
    EXPECT_EQ(engine->i64("memory_used"), 1028);
  }
  fake.expect_clean();
}

TEST(FakeEngine, MayEndWhileARunIsUnderWay) {
  const FakePlugin fake;
  {
    auto engine = fake_engine(fake);
    auto program = engine->compile(counter());
    fake->set("run_ms", 50);
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    const std::vector<BufferRef> results = program->run(inputs);
    program.reset();
    engine.reset(); // results keep what they need
    EXPECT_EQ(results[1]->read().as<float>()[0], 7);
  }
  fake.expect_clean();
}

// Borrowed memory of the host: until the array is destroyed, and never waited for.
TEST(FakeEngine, BorrowsTheHostsMemoryForAsLongAsItIsUsed) {
  const FakePlugin fake;
  fake->set_platform("cpu");
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    Tensor state = counting({256});
    std::vector<BufferRef> inputs{engine->upload(state, true), engine->upload(counting({1}, 7))};
    EXPECT_EQ(fake->bytes_in_use(), 4) << "the state is where it was";
    state = Tensor();
    inputs[0] = program->run(inputs)[0];
    EXPECT_TRUE(same_bytes(inputs[0]->read(), counting({256})));
  }
  fake.expect_clean();
}

// Uploads and reads that end late, their tensors long gone.
TEST(FakeEngine, HoldsTensorsUntilTransfersEnd) {
  const FakePlugin fake;
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    fake->set("transfer_ms", 20);
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    const auto results = program->run(inputs);
    EXPECT_TRUE(same_bytes(results[0]->read(), counting({256})));
    // Without being called back there is nothing but to wait, before anything is let go, and to
    // give up.
    fake->fail_at("PJRT_Event_OnReady", 1, 13, "cannot call back");
    expect_error(Code::internal, "PJRT_Event_OnReady: cannot call back",
                 [&] { engine->upload(counting({256})); });
    expect_error(Code::internal, "PJRT_Event_OnReady: cannot call back", [&] {
      const BufferRef array = engine->upload(counting({256}));
      fake->fail_at("PJRT_Event_OnReady", 1, 13, "cannot call back");
      array->read();
    });
  }
  fake.expect_clean();
}

TEST(FakeEngine, CompilesAgainWhatTheCacheCannotGive) {
  const FakePlugin fake;
  const test::TempFolder folder;
  const auto compiles = [&] {
    const auto engine = make_engine(fake_options(fake, folder.path()));
    const auto program = engine->compile(counter());
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    EXPECT_EQ(program->run(inputs)[1]->read().as<float>()[0], 7);
    return engine->i64("compiles");
  };
  EXPECT_EQ(compiles(), 1);
  EXPECT_EQ(compiles(), 0);
  const std::string file = folder.path(list_directory(folder.path()).at(0));
  const std::string good = read_text(file);
  write_file_atomic(file, good.substr(0, good.size() - 1));
  EXPECT_EQ(compiles(), 1) << "a cut file";
  EXPECT_EQ(compiles(), 0);
  fake->fail_at("PJRT_Executable_DeserializeAndLoad", 1, 13, "made by another build");
  EXPECT_EQ(compiles(), 1) << "a program the plugin does not take";
  EXPECT_EQ(compiles(), 0);
  remove_all(file);
  fake->fail_at("PJRT_Executable_Serialize", 1, 12, "not implemented");
  EXPECT_EQ(compiles(), 1);
  EXPECT_EQ(compiles(), 1) << "nothing was kept";
  EXPECT_EQ(compiles(), 0);
  fake.expect_clean();
}

} // namespace
} // namespace dllm::pjrt
