#pragma once
// The one seam for threads. Chunks cut outputs only, so who runs a chunk never changes a bit; reductions keep fixed
// borders and are summed in index order by the caller.

#include "base/task.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dllm {

// Threads of a host in place of the pool's own.
class TaskRunner {
 public:
  using ChunkFn = void (*)(void* job, int64_t index);
  virtual ~TaskRunner() = default;
  // Calls chunk(job, i), which does not throw, once for every i of 0..count-1 and returns after all of them. Several
  // threads may call it at the same time.
  virtual void run(int64_t count, ChunkFn chunk, void* job) = 0;
};

// A pool owned by an engine. The calling thread may claim every chunk itself and waits only for chunks somebody
// really started, so a busy machine never stalls it. Any host thread may call; calls from several threads are served
// one after the other, a nested call runs inline. Idle workers sleep. A forked child starts its own workers lazily.
class ThreadPool {
 public:
  using ChunkFn = void (*)(void* context, int64_t chunk);

  // threads: counts the caller; 1: no worker at all. runner: does the work of workers, and none is started.
  explicit ThreadPool(int threads, std::shared_ptr<TaskRunner> runner = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Runs fn(context, 0..chunks-1). The first exception of a chunk is rethrown here after all started chunks ended; chunks
  // that had not started by then are left out. The task is checked while another caller has the pool.
  void run(int64_t chunks, ChunkFn fn, void* context, const Task* task = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// CPUs this process may use: affinity mask and cgroup quota, at least 1.
int allowed_cpus();

// The threads one piece of work may use and the task that may stop it. No pool: the calling thread. No task: it is
// never stopped.
struct Workers {
  Workers() = default;
  Workers(std::nullptr_t) {}  // NOLINT: null is "no pool", as it is for a pointer
  Workers(ThreadPool* pool_in, const Task* task_in = nullptr) : pool(pool_in), task(task_in) {}  // NOLINT

  int threads() const { return pool == nullptr ? 1 : pool->threads(); }
  // The same work on the calling thread.
  Workers serial() const { return {nullptr, task}; }
  // Throws as check_task does. For long loops inside one chunk.
  void check() const { check_task(task); }

  ThreadPool* pool = nullptr;
  const Task* task = nullptr;
};

// Runs fn(0..chunks-1). The task is checked before every chunk: once it is cancelled no further chunk runs, and the
// call throws as check_task does after the chunks that had started. So a cancel waits for one chunk per thread at most:
// keep a chunk below 10 ms.
template <class F>
void parallel(const Workers& workers, int64_t chunks, F&& fn) {
  const Task* const task = workers.task;
  auto checked = [&fn, task](int64_t chunk) {
    check_task(task);
    fn(chunk);
  };
  if (workers.pool == nullptr || chunks <= 1) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) checked(chunk);
    return;
  }
  using Fn = decltype(checked);
  workers.pool->run(chunks, [](void* context, int64_t chunk) { (*static_cast<Fn*>(context))(chunk); }, &checked, task);
}

}  // namespace dllm
