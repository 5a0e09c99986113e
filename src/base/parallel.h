#pragma once
// The one seam for threads. Chunks cut outputs only, so who runs a chunk never changes a bit; reductions keep fixed
// borders and are summed in index order by the caller.

#include "base/task.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dllm {

// Threads that a pool uses in place of workers of its own: those of a host, or of OpenMP.
class TaskRunner {
public:
  using ChunkFn = void (*)(void* job, int64_t index);
  virtual ~TaskRunner() = default;
  // Calls chunk(job, i), which does not throw, once for every i of 0..count-1 and returns after all of them.
  virtual void run(int64_t count, ChunkFn chunk, void* job) = 0;
  // True: several threads may call run() at the same time. False: the pool gives it one job at a time.
  virtual bool is_concurrent() const { return true; }
  // False: the pool starts workers of its own for this job.
  virtual bool is_usable() const { return true; }
};

// Whether this build has threads of OpenMP (CMake option DLLM_OPENMP, a compiler with OpenMP).
bool has_openmp();
// Runs jobs as parallel regions of `threads` threads, the caller among them; chunks are claimed one at a time. The
// environment of OpenMP decides where its threads run and whether they spin while idle; nothing global is changed. In a
// forked child it is not usable: the team of GNU OpenMP does not survive fork(). Fails with unimplemented without OpenMP.
std::shared_ptr<TaskRunner> openmp_runner(int threads);
// The most threads OpenMP uses when none are named (OMP_NUM_THREADS); 0 without OpenMP.
int openmp_threads();

// A pool owned by an engine. With workers of its own the calling thread may claim every chunk itself and waits only for
// chunks that a worker has started, so a busy machine never stalls it; idle workers sleep, and a forked child starts its
// own at the first job. Any host thread may call; calls from several threads are served one after the other (a runner
// may serve them at the same time), a nested call runs inline.
class ThreadPool {
public:
  using ChunkFn = void (*)(void* context, int64_t chunk);

  // threads: counts the caller; 1: no worker at all. runner: in place of workers; null: workers.
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
  Workers(std::nullptr_t) {} // NOLINT: null is "no pool", as it is for a pointer
  Workers(ThreadPool* pool_in, const Task* task_in = nullptr)
      : pool(pool_in), task(task_in) {} // NOLINT

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
template <class F> void parallel(const Workers& workers, int64_t chunks, F&& fn) {
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
  workers.pool->run(
      chunks, [](void* context, int64_t chunk) { (*static_cast<Fn*>(context))(chunk); }, &checked,
      task);
}

} // namespace dllm
