// One engine and eight threads, on a plugin that ends runs and transfers late and on threads of its
// own. Runs under the thread sanitizer too.

#include "base/task.h"
#include "unit/pjrt/fake/fake_engine.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <functional>
#include <thread>

namespace dllm::pjrt {
namespace {

constexpr int kThreads = 8;

void in_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

// x + x; on the fake plugin x.
std::shared_ptr<graph::Graph> shared_graph() {
  auto made = std::make_shared<graph::Graph>("shared");
  const graph::Value x = made->input("x", DType::f32, {64});
  made->output("y", add(x, x));
  return made;
}

void set_late(const FakePlugin& fake) {
  fake->set("run_ms", 1);
  fake->set("transfer_ms", 1);
}

// Every thread has a state of its own in one program, all use another program with one input in
// common.
TEST(FakeThreads, StepAndReadAtOnce) {
  const FakePlugin fake;
  std::atomic<int> right{0};
  {
    const auto engine = fake_engine(fake, 3);
    const auto steps = engine->compile(counter()), shared = engine->compile(shared_graph());
    set_late(fake);
    const BufferRef common = engine->upload(counting({64}, 5));
    in_threads([&](int t) {
      const Tensor start = counting({256}, static_cast<float>(t));
      std::vector<BufferRef> inputs{engine->upload(start), engine->upload(counting({1}, 7))};
      for (int step = 0; step < 6; ++step) {
        auto results = steps->run(inputs);
        inputs[0] = std::move(results[0]);
        const auto other = shared->run(std::vector<BufferRef>{common});
        right += results[1]->read().as<float>()[0] == 7;
        right += same_bytes(other[0]->read(), counting({64}, 5));
      }
      right += same_bytes(inputs[0]->read(), start);
    });
    EXPECT_GT(engine->i64("round_trips"), 0);
  }
  EXPECT_EQ(right, kThreads * 13);
  fake.expect_clean();
}

// All read the results of one run, whose transfers are begun by the first reader.
TEST(FakeThreads, ReadOneRun) {
  const FakePlugin fake;
  std::atomic<int> right{0};
  {
    const auto engine = fake_engine(fake);
    const auto program = engine->compile(counter());
    set_late(fake);
    std::vector<BufferRef> inputs = counter_inputs(*engine);
    for (int step = 0; step < 5; ++step) {
      const auto results = program->run(inputs);
      in_threads([&](int t) {
        const Tensor read = results[static_cast<size_t>(t % 2)]->read();
        right += same_bytes(read, t % 2 == 0 ? counting({256}) : counting({1}, 7));
      });
      inputs[0] = results[0];
    }
    EXPECT_EQ(engine->i64("round_trips"), 5);
  }
  EXPECT_EQ(right, 5 * kThreads);
  fake.expect_clean();
}

// Engines, programs and the cache's folder come and go in all threads.
TEST(FakeThreads, LiveAndDieTogether) {
  const FakePlugin fake;
  const test::TempFolder folder(true);
  set_late(fake);
  std::atomic<int> right{0};
  in_threads([&](int t) {
    for (int life = 0; life < 3; ++life) {
      const auto engine = make_engine(fake_options(fake, folder.path()));
      const int64_t size = 64 + (t + life) % 3;
      const auto program = engine->compile(counter(size));
      const auto results = program->run(counter_inputs(*engine, size));
      right += same_bytes(results[0]->read(), counting({size}));
      right += engine->describe()["kind"] == "pjrt";
    }
  });
  EXPECT_EQ(right, kThreads * 6);
  fake.expect_clean();
}

// Runs fail, are cancelled and succeed side by side.
TEST(FakeThreads, FailAtOnce) {
  const FakePlugin fake;
  std::atomic<int> ended{0};
  {
    const auto engine = fake_engine(fake, 3);
    const auto program = engine->compile(counter());
    set_late(fake);
    for (const int64_t nth : {3, 11, 17})
      fake->fail_at("PJRT_LoadedExecutable_Execute", nth, 8, "full");
    fake->poison_run(7, 14, "lost");
    in_threads([&](int t) {
      Task cancelled;
      if (t == 5) cancelled.cancel();
      for (int step = 0; step < 4; ++step) {
        try {
          const auto results = program->run(counter_inputs(*engine), &cancelled);
          ended += results[1]->read().as<float>()[0] == 7;
        } catch (const Error& error) {
          const Code code = error.code();
          ended += code == Code::cancelled || code == Code::resource_exhausted ||
                   code == Code::unavailable;
        }
      }
    });
    EXPECT_EQ(program->run(counter_inputs(*engine))[1]->read().as<float>()[0], 7);
  }
  EXPECT_EQ(ended, kThreads * 4);
  fake.expect_clean();
}

} // namespace
} // namespace dllm::pjrt
