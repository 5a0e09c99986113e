// Cancelling, many callers at once, and a forked child. Runs under the thread sanitizer too.

#include "base/task.h"
#include "cpu/memory.h"
#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace dllm::cpu {
namespace {

using Clock = std::chrono::steady_clock;
using graph::Graph;
using graph::Value;

std::shared_ptr<Graph> endless() {
  auto cond = std::make_shared<Graph>("always");
  const Value c = cond->input("x", DType::f32, {64});
  cond->output("go",
               less_equal(sum(multiply(c, graph::scalar(*cond, 0)), {0}), graph::scalar(*cond, 1)));
  auto body = std::make_shared<Graph>("body");
  body->output("x", tanh(body->input("x", DType::f32, {64})));
  auto graph = std::make_shared<Graph>("endless");
  graph->output("x", while_loop(cond, body, {graph->input("x", DType::f32, {64})})[0]);
  return graph;
}

// Seconds from cancel() to the end of an endless run.
double seconds_to_stop(graph::Program& program, const std::vector<graph::BufferRef>& inputs) {
  Task task;
  Clock::time_point cancelled;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancelled = Clock::now();
    task.cancel();
  });
  const Error error = thrown_by([&] { program.run(inputs, &task); });
  const auto ended = Clock::now();
  other.join();
  EXPECT_EQ(error.code(), Code::cancelled);
  EXPECT_EQ(error.hint(), "");
  return std::chrono::duration<double>(ended - cancelled).count();
}

TEST(Cancel, StopsWithinMilliseconds) {
  auto engine = test_engine(2);
  auto program = engine->compile(endless());
  const auto inputs = upload_all(*engine, {random_tensor({64}, 1)});
  // The best of a few: a busy machine may put a thread to sleep for longer than that.
  double best = 1e9;
  for (int attempt = 0; attempt < 5 && best >= 0.02; ++attempt) {
    best = std::min(best, seconds_to_stop(*program, inputs));
  }
  EXPECT_LT(best, 0.02);
  // The engine works on, and so does the buffer.
  auto graph = std::make_shared<Graph>("after");
  graph->output("y", exp(graph->input("x", DType::f32, {64})));
  EXPECT_EQ(engine->compile(graph)->run(inputs).size(), 1u);
}

TEST(Cancel, SaysWhenDonatedStateIsLost) {
  auto graph = std::make_shared<Graph>("lost");
  auto cond = std::make_shared<Graph>("always");
  const Value c = cond->input("n", DType::f32, {});
  cond->output("go", equal(c, c));
  auto body = std::make_shared<Graph>("body");
  const Value n = body->input("n", DType::f32, {});
  body->output("n", multiply(n, n));
  const Value p = graph->input("p", DType::f32, {8});
  const Value stepped = add(p, graph::scalar(*graph, 1));
  const Value looped = while_loop(cond, body, {sum(stepped, {0})})[0];
  graph->output("p", stepped, "p");
  graph->output("n", looped);
  auto engine = test_engine();
  auto program = engine->compile(graph);
  Task task;
  task.set_deadline(20);
  auto state = upload_all(*engine, {random_tensor({8}, 1)});
  const Error error = thrown_by([&] { program->run(state, &task); });
  EXPECT_EQ(error.code(), Code::deadline_exceeded);
  EXPECT_NE(error.hint().find("state lost"), std::string::npos);
  EXPECT_EQ(thrown_by([&] { state[0]->read(); }).code(), Code::failed_precondition);

  Task early;
  early.cancel();
  auto kept = upload_all(*engine, {random_tensor({8}, 2)});
  EXPECT_EQ(thrown_by([&] { program->run(kept, &early); }).hint(), "");
  EXPECT_TRUE(same_bits(kept[0]->read(), random_tensor({8}, 2)));
}

std::shared_ptr<Graph> layer() {
  auto graph = std::make_shared<Graph>("layer");
  const Value x = graph->input("x", DType::f32, {33, 40});
  const Value w = graph->input("w", {{50, 40}, DType::f32, {}}, true);
  const Value h = softmax(linear(x, w), -1);
  graph->output("h", h);
  graph->output("total", sum(h, {0, 1}));
  return graph;
}

TEST(Callers, ManyThreadsGetTheSameBits) {
  auto engine = test_engine(3);
  auto shared = engine->compile(layer());
  const auto inputs = upload_all(*engine, {random_tensor({33, 40}, 1), random_tensor({50, 40}, 2)});
  const auto expected =
      read_all(test_engine(1)->compile(layer())->run(upload_all(*engine, read_all(inputs))));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      auto own = t % 2 == 0 ? shared : engine->compile(layer());
      for (int i = 0; i < 20; ++i) {
        if (!same_bits(read_all(own->run(inputs)), expected)) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Callers, ThreadsOfOpenMpGiveTheSameBits) {
  if (!has_openmp()) GTEST_SKIP() << "this build has no threads of OpenMP";
  const std::vector<Tensor> inputs = {random_tensor({33, 40}, 1), random_tensor({50, 40}, 2)};
  const auto expected = run_graph(*test_engine(1), layer(), inputs);
  for (const int64_t threads : {1, 2, 3}) {
    Options options(graph::engine_schema());
    options.set_i64("threads", threads);
    options.set_str("thread_pool", "openmp");
    auto engine = make_engine(options);
    EXPECT_EQ(engine->describe().at("thread_pool"), "openmp");
    EXPECT_EQ(engine->i64("threads"), threads);
    EXPECT_TRUE(same_bits(run_graph(*engine, layer(), inputs), expected)) << threads;
    engine->set_i64("threads", 2);
    EXPECT_TRUE(same_bits(run_graph(*engine, layer(), inputs), expected)) << threads << ", then 2";
  }
}

// Halves until the numbers are small: never ends for infinity, at once for zeros.
std::shared_ptr<Graph> halving() {
  auto cond = std::make_shared<Graph>("large"), body = std::make_shared<Graph>("half");
  const Value c = cond->input("x", DType::f32, {64});
  cond->output("go", greater(sum(c, {0}), graph::scalar(*cond, 1)));
  const Value x = body->input("x", DType::f32, {64});
  body->output("x", multiply(x, graph::scalar(*body, 0.5f)));
  auto graph = std::make_shared<Graph>("halving");
  const Value given = graph->input("x", DType::f32, {64});
  graph->output("x", while_loop(cond, body, {multiply(given, given)})[0]);
  return graph;
}

Tensor filled(float number) {
  return Tensor::from(Shape{64}, std::vector<float>(64, number));
}

// A run that never ends by itself, in a thread of its own until it is stopped.
class EndlessRun {
public:
  EndlessRun(graph::Engine& engine, graph::Program& program)
      : inputs_(upload_all(engine, {filled(std::numeric_limits<float>::infinity())})),
        thread_([this, &program] {
          const Error error = thrown_by([&] { program.run(inputs_, &task_); });
          EXPECT_EQ(error.code(), Code::cancelled);
        }) {
    // The number of checks grows while it runs.
    task_.cancel_at_check(1'000'000'000'000);
    int64_t first = task_.checks_left();
    while (task_.checks_left() > first - 100) std::this_thread::yield();
  }
  ~EndlessRun() {
    task_.cancel();
    thread_.join();
  }

private:
  Task task_;
  std::vector<graph::BufferRef> inputs_;
  std::thread thread_;
};

// A second caller does not wait for the first: two decoders, or two ranks that meet in an exchange.
TEST(Callers, OneProgramRunsInTwoThreadsAtOnce) {
  for (const int64_t threads : {1, 2}) {
    auto engine = test_engine(threads);
    auto program = engine->compile(halving());
    const auto inputs = upload_all(*engine, {filled(1)});
    EndlessRun endless(*engine, *program);
    for (int i = 0; i < 3; ++i) {
      Task task;
      task.set_deadline(60'000);
      EXPECT_EQ(floats(program->run(inputs, &task)[0]->read())[0], 1.0f / 64);
    }
  }
}

// Runs one after the other keep one arena; runs at the same time have one each, and a trim releases
// them.
TEST(Callers, ArenasAreCounted) {
  auto engine = test_engine();
  auto program = engine->compile(halving());
  const auto inputs = upload_all(*engine, {filled(1)});
  const int64_t before = engine->i64("memory_used"), arena = program->plan().arena_bytes;
  ASSERT_GT(arena, 0);
  for (int i = 0; i < 3; ++i) program->run(inputs);
  EXPECT_EQ(engine->i64("memory_used"), before + arena);
  {
    EndlessRun endless(*engine, *program);
    program->run(inputs);
    program->run(inputs);
    const int64_t of_endless = program->plan().input_bytes + program->plan().output_bytes;
    EXPECT_EQ(engine->i64("memory_used"), before + 2 * arena + of_endless);
  }
  EXPECT_EQ(engine->i64("memory_used"), before + 2 * arena);
  engine->trim();
  EXPECT_EQ(engine->i64("memory_used"), before);
}

// Threads take and give kept blocks while others change the limit and free what is kept.
TEST(Callers, ShareKeptBlocks) {
  const auto ledger = std::make_shared<MemoryLedger>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger, t] {
      for (int i = 0; i < 200; ++i) {
        const Block block(ledger, int64_t{4 + (i + t) % 5} << 20, "a test", BlockUse::run);
        *block.data() = static_cast<std::byte>(i); // after the last holder's write
        if (i % 50 == t) ledger->set_limit(i % 100 == t ? int64_t{1} << 30 : 0);
        if (i % 70 == t) ledger->drop_kept();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger->used(), 0);
  EXPECT_LE(ledger->kept(), ledger->peak());
  ledger->close();
  EXPECT_EQ(ledger->kept(), 0);
}

// Under a memory limit the second run waits, and its task is looked at while it does.
TEST(Callers, ARunThatDoesNotFitWaits) {
  auto engine = test_engine();
  auto program = engine->compile(halving());
  const auto inputs = upload_all(*engine, {filled(1)});
  const graph::PlanReport& plan = program->plan();
  // Room for both inputs and one run.
  const int64_t one_run = plan.output_bytes + plan.arena_bytes;
  engine->set_i64("memory_limit",
                  engine->i64("memory_used") + plan.input_bytes + one_run + one_run / 2);
  std::thread waiting;
  {
    EndlessRun endless(*engine, *program);
    Task task;
    task.set_deadline(40);
    EXPECT_EQ(thrown_by([&] { program->run(inputs, &task); }).code(), Code::deadline_exceeded);
    waiting =
        std::thread([&] { EXPECT_EQ(floats(program->run(inputs)[0]->read())[0], 1.0f / 64); });
  }
  waiting.join();
  EXPECT_LE(engine->i64("memory_peak"), engine->i64("memory_limit"));
}

#if !defined(DLLM_SANITIZES_THREAD)
TEST(Fork, AChildComputesOn) {
  auto engine = test_engine(2);
  auto program = engine->compile(layer());
  const auto inputs = upload_all(*engine, {random_tensor({33, 40}, 1), random_tensor({50, 40}, 2)});
  const auto expected = read_all(program->run(inputs));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    _exit(same_bits(read_all(program->run(inputs)), expected) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

} // namespace
} // namespace dllm::cpu
