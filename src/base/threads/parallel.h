#pragma once
// Runs the chunks of a job on the threads of a pool; all multithreaded computing goes through this
// header. Results do not depend on the threads. Chunks write disjoint outputs, and a reduction has
// fixed chunks whose results the caller adds in index order.

#include "base/task.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dllm {

// Runs the jobs of a pool on threads of the host or of OpenMP instead of the pool's workers.
class TaskRunner {
public:
  using ChunkFn = void (*)(void* job, int64_t index);
  virtual ~TaskRunner() = default;
  // Calls chunk(job, i) once for every i in 0..count-1 and returns when all calls have returned.
  // chunk does not throw.
  virtual void run(int64_t count, ChunkFn chunk, void* job) = 0;
  // Returns true if several threads may call run() at the same time; else the pool passes one job
  // at a time.
  virtual bool is_concurrent() const { return true; }
  // Returns false if the pool must run this job on its own workers.
  virtual bool is_usable() const { return true; }
};

// Returns true if this build supports OpenMP (CMake option DLLM_OPENMP and a compiler with OpenMP).
bool has_openmp();
// Returns a runner whose jobs are OpenMP parallel regions of `threads` threads, the caller
// included. Threads claim one chunk at a time. The environment variables of OpenMP decide where the
// threads run and whether idle threads spin; the runner changes no global setting. In a forked
// child is_usable() is false, because the threads of GNU OpenMP do not survive fork(). Fails with
// unimplemented without OpenMP.
std::shared_ptr<TaskRunner> openmp_runner(int threads);
// Returns the default number of threads of OpenMP (OMP_NUM_THREADS); 0 without OpenMP.
int openmp_threads();

// The thread pool of an engine. Any host thread may call run(). Calls from several threads run one
// after the other, except that a concurrent runner runs them at the same time. A nested call runs
// its chunks on the calling thread.
//
// Without a runner the pool has workers. The calling thread claims chunks too and waits only for
// chunks that a worker has started, so a busy machine never stalls the call. Idle workers sleep. A
// forked child starts new workers at its first job.
class ThreadPool {
public:
  using ChunkFn = void (*)(void* context, int64_t chunk);

  // threads: includes the caller, so 1 means no workers. runner: runs the jobs in place of workers;
  // null means workers.
  explicit ThreadPool(int threads, std::shared_ptr<TaskRunner> runner = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Calls fn(context, i) for every i in 0..chunks-1. After an exception no further chunk starts;
  // run() waits for the started chunks and rethrows the first exception. The task is checked while
  // run() waits for another caller's job.
  void run(int64_t chunks, ChunkFn fn, void* context, const Task* task = nullptr);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the number of CPUs that affinity mask and cgroup quota allow, at least 1.
int allowed_cpus();

// The pool that a piece of work may use and the task that can stop it. A null pool means the
// calling thread; with a null task the work cannot be stopped.
struct Workers {
  Workers() = default;
  Workers(std::nullptr_t) {} // NOLINT: null is "no pool", as it is for a pointer
  Workers(ThreadPool* pool_in, const Task* task_in = nullptr)
      : pool(pool_in), task(task_in) {} // NOLINT

  int threads() const { return pool == nullptr ? 1 : pool->threads(); }
  // Returns workers with the same task that use the calling thread only.
  Workers serial() const { return {nullptr, task}; }
  // Throws as check_task does. Long loops inside one chunk call it.
  void check() const { check_task(task); }

  ThreadPool* pool = nullptr;
  const Task* task = nullptr;
};

// Calls fn(i) for every i in 0..chunks-1. The task is checked before each chunk. After a cancel no
// further chunk starts, and when the started chunks have ended, the call throws as check_task does.
// A cancel thus waits for at most one chunk per thread, so keep a chunk below 10 ms.
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
