#include "base/threads/parallel.h"

#include "base/error.h"
#include "unit/test_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace dllm {
namespace {

// Each test of a pool runs with its own workers and with threads of OpenMP.
class Pools : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (is_openmp() && !has_openmp()) GTEST_SKIP() << "this build has no threads of OpenMP";
  }
  static bool is_openmp() { return std::string(GetParam()) == "openmp"; }
  static std::shared_ptr<TaskRunner> runner(int threads) {
    return is_openmp() ? openmp_runner(threads) : nullptr;
  }
};

INSTANTIATE_TEST_SUITE_P(ThreadPool, Pools, testing::Values("own", "openmp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Pools, RunsEveryChunkOnce) {
  for (const int threads : {1, 2, 3, 4}) {
    ThreadPool pool(threads, runner(threads));
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t chunks : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(chunks));
      parallel(&pool, chunks,
               [&](int64_t chunk) { hits[static_cast<size_t>(chunk)].fetch_add(1); });
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1) << threads << " " << chunks;
    }
  }
  EXPECT_EQ(ThreadPool(0).threads(), 1);
}

TEST(ThreadPool, NullPoolRunsInline) {
  std::vector<int64_t> order;
  parallel(nullptr, 4, [&](int64_t chunk) { order.push_back(chunk); });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_P(Pools, ManySmallJobsInARow) {
  ThreadPool pool(3, runner(3));
  std::atomic<int64_t> sum{0};
  for (int job = 0; job < 20000; ++job) {
    parallel(&pool, 3, [&](int64_t chunk) { sum.fetch_add(chunk, std::memory_order_relaxed); });
  }
  EXPECT_EQ(sum.load(), 3 * 20000);
}

TEST_P(Pools, NestedCallsRunInline) {
  ThreadPool pool(3, runner(3));
  std::atomic<int> inner{0};
  std::atomic<bool> same_thread{true};
  parallel(&pool, 8, [&](int64_t) {
    const auto outer_thread = std::this_thread::get_id();
    parallel(&pool, 8, [&](int64_t) {
      if (std::this_thread::get_id() != outer_thread) same_thread = false;
      inner.fetch_add(1);
    });
  });
  EXPECT_EQ(inner.load(), 64);
  EXPECT_TRUE(same_thread.load());
}

TEST_P(Pools, NestedCallsOfOtherPoolsAndAfterAnInlineRunStillWork) {
  ThreadPool outer(2, runner(2)), inner(2, runner(2));
  std::atomic<int> hits{0};
  parallel(&outer, 4, [&](int64_t) { parallel(&inner, 4, [&](int64_t) { hits.fetch_add(1); }); });
  parallel(&outer, 4, [&](int64_t) { hits.fetch_add(1); });
  EXPECT_EQ(hits.load(), 20);
}

TEST_P(Pools, ExceptionReachesTheCallerAndThePoolGoesOn) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads, runner(threads));
    for (int round = 0; round < 200; ++round) {
      const auto call = [&] {
        parallel(&pool, 16, [&](int64_t chunk) {
          if (chunk == 5) fail(Code::data_loss, "chunk {}", chunk);
        });
      };
      test::expect_error(Code::data_loss, "chunk 5", call);
      std::atomic<int> hits{0};
      parallel(&pool, 16, [&](int64_t) { hits.fetch_add(1); });
      ASSERT_EQ(hits.load(), 16);
    }
  }
}

TEST_P(Pools, AllChunksMayThrow) {
  ThreadPool pool(4, runner(4));
  for (int round = 0; round < 200; ++round) {
    EXPECT_THROW(parallel(&pool, 32, [](int64_t) { throw std::runtime_error("x"); }),
                 std::runtime_error);
  }
}

TEST_P(Pools, SeveralCallersAreServedOneAfterTheOther) {
  ThreadPool pool(3, runner(3));
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int job = 0; job < 500; ++job) {
        std::vector<int> own(10, 0);
        parallel(&pool, 10, [&](int64_t chunk) { own[static_cast<size_t>(chunk)] = 1; });
        for (const int hit : own) sum.fetch_add(hit);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4 * 500 * 10);
}

TEST_P(Pools, WorksInAForkedChild) {
  ThreadPool pool(3, runner(3));
  std::atomic<int> before{0};
  parallel(&pool, 8, [&](int64_t) { before.fetch_add(1); });
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> hits{0};
    for (int job = 0; job < 50; ++job) parallel(&pool, 8, [&](int64_t) { hits.fetch_add(1); });
    ::_exit(hits.load() == 400 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  parallel(&pool, 8, [&](int64_t) { before.fetch_add(1); });
  EXPECT_EQ(before.load(), 16);
}

// A caller whose task is cancelled does not wait for the job of another caller.
TEST_P(Pools, ACancelledCallerDoesNotWaitForItsTurn) {
  ThreadPool pool(2, runner(2));
  std::atomic<bool> started{false}, go_on{false};
  std::thread other([&] {
    parallel(&pool, 2, [&](int64_t) {
      started = true;
      while (!go_on) std::this_thread::yield();
    });
  });
  while (!started) std::this_thread::yield();
  Task task;
  task.set_deadline(20);
  test::expect_error(Code::deadline_exceeded, "",
                     [&] { parallel(Workers(&pool, &task), 4, [](int64_t) {}); });
  go_on = true;
  other.join();
}

// Each of these threads has a team of OpenMP of its own, which ends with it.
TEST_P(Pools, ThreadsThatComeAndGoMayCall) {
  ThreadPool pool(3, runner(3));
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 30; ++round) {
    std::thread([&] { parallel(&pool, 16, [&](int64_t chunk) { sum += chunk; }); }).join();
  }
  EXPECT_EQ(sum, 30 * 120);
}

TEST(ThreadPool, IdleWorkersSleep) {
  ThreadPool pool(4);
  parallel(&pool, 8, [](int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t start = std::clock(); // CPU time of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.1);
}

TEST(OpenMp, RunsInSeveralThreads) {
  if (!has_openmp()) {
    test::expect_error(Code::unimplemented, "no threads of OpenMP", [] { openmp_runner(2); });
    GTEST_SKIP() << "this build has no threads of OpenMP";
  }
  EXPECT_GE(openmp_threads(), 1);
  // Two chunks that wait for each other end only when two threads run them.
  ThreadPool pool(2, openmp_runner(2));
  std::atomic<int> arrived{0};
  parallel(&pool, 2, [&](int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(AllowedCpus, IsAtLeastOne) {
  EXPECT_GE(allowed_cpus(), 1);
}

// Every thread may be in a chunk when the task is cancelled; none begins another.
TEST_P(Pools, ACancelledTaskStopsTheClaimingOfChunks) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads, runner(threads));
    Task task;
    std::atomic<int> started{0}, late{0};
    EXPECT_THROW(parallel(Workers(&pool, &task), 1000,
                          [&](int64_t) {
                            if (task.is_cancelled()) ++late;
                            if (++started == 10) task.cancel();
                          }),
                 Error);
    EXPECT_GE(started, 10) << threads;
    EXPECT_LE(started, 10 + threads) << threads;
    EXPECT_LE(late, threads) << threads;
    int64_t sum = 0;
    parallel(&pool, 1, [&](int64_t) { ++sum; }); // the pool goes on
    EXPECT_EQ(sum, 1);
  }
}

// Threads of a host: backwards, every second chunk on another thread.
class BackwardsRunner final : public TaskRunner {
public:
  explicit BackwardsRunner(int64_t forgets = 0) : forgets_(forgets) {}
  void run(int64_t count, ChunkFn chunk, void* job) override {
    ++jobs;
    std::thread other([&] {
      for (int64_t i = count - 1; i >= forgets_; i -= 2) chunk(job, i);
    });
    for (int64_t i = count - 2; i >= forgets_; i -= 2) chunk(job, i);
    other.join();
  }
  std::atomic<int> jobs{0};

private:
  int64_t forgets_;
};

TEST(TaskRunner, RunsEveryChunkOnce) {
  const auto runner = std::make_shared<BackwardsRunner>();
  ThreadPool pool(3, runner);
  EXPECT_EQ(pool.threads(), 3);
  std::vector<std::atomic<int>> counts(101);
  parallel(&pool, 101, [&](int64_t i) {
    parallel(&pool, 4, [](int64_t) {}); // nested: inline
    ++counts[static_cast<size_t>(i)];
  });
  for (const std::atomic<int>& count : counts) EXPECT_EQ(count, 1);
  EXPECT_EQ(runner->jobs, 1);
  // Two callers at once.
  std::atomic<int64_t> sum{0};
  const auto add = [&] {
    for (int i = 0; i < 20; ++i) parallel(&pool, 10, [&](int64_t chunk) { sum += chunk; });
  };
  std::thread other(add);
  add();
  other.join();
  EXPECT_EQ(sum, 2 * 20 * 45);
  ThreadPool serial(1, runner);
  const int before = runner->jobs;
  parallel(&serial, 10, [](int64_t) {});
  EXPECT_EQ(runner->jobs, before); // one thread needs none of the host
}

TEST(TaskRunner, BringsFailuresBack) {
  ThreadPool pool(2, std::make_shared<BackwardsRunner>());
  EXPECT_THROW(parallel(&pool, 8,
                        [](int64_t i) {
                          if (i == 5) throw std::runtime_error("five");
                        }),
               std::runtime_error);
  Task task;
  task.cancel();
  test::expect_error(Code::cancelled, "cancelled",
                     [&] { parallel(Workers(&pool, &task), 8, [](int64_t) {}); });
  ThreadPool forgetful(2, std::make_shared<BackwardsRunner>(2));
  test::expect_error(Code::internal, "6 of 8", [&] { parallel(&forgetful, 8, [](int64_t) {}); });
}

} // namespace
} // namespace dllm
