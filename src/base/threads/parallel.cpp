#include "base/threads/parallel.h"

#include "base/error.h"
#include "base/threads/float_mode.h"
#include "base/threads/forked_thread.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace dllm {
namespace {

// About 20 us: shorter than a futex wake, longer than the gap between two kernels.
constexpr int kSpins = 2000;
constexpr uint32_t kClosed = 0xFFFFFFFFu;

thread_local bool inside_chunk = false; // a nested parallel() runs inline

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

} // namespace

// Runs one job at a time. `ticket` holds job number << 32 | next chunk. A compare-and-swap on the
// ticket claims a chunk and proves that the fields read before it belong to that job.
struct ThreadPool::Impl {
  Impl(int count, std::shared_ptr<TaskRunner> host) : threads(count), runner(std::move(host)) {}

  const int threads;
  const std::shared_ptr<TaskRunner> runner; // null: workers
  std::timed_mutex callers;
  std::atomic<uint64_t> ticket{kClosed};
  std::atomic<ChunkFn> fn{nullptr};
  std::atomic<void*> context{nullptr};
  std::atomic<uint32_t> chunks{0};
  std::atomic<uint32_t> done{0};
  std::atomic<uint32_t> wake{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::vector<std::thread> workers;
  pid_t owner = 0;

  bool step(uint64_t job);
  void work();
  void start();
  void run(int64_t count, ChunkFn f, void* c, const Task* task);
};

// Claims and runs one chunk of `job`. Returns false if no chunk is left.
bool ThreadPool::Impl::step(uint64_t job) {
  uint64_t now = ticket.load(std::memory_order_acquire);
  // Acquire order: a thread that reads a field of the next job also sees the ticket of this job
  // closed, so the swap below fails.
  const uint32_t count = chunks.load(std::memory_order_acquire);
  const ChunkFn call = fn.load(std::memory_order_acquire);
  void* const argument = context.load(std::memory_order_acquire);
  do {
    if ((now >> 32) != job || static_cast<uint32_t>(now) >= count) return false;
  } while (!ticket.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel));
  inside_chunk = true;
  try {
    if (!failed.load(std::memory_order_relaxed)) call(argument, static_cast<uint32_t>(now));
  } catch (...) {
    if (!failed.exchange(true)) error = std::current_exception();
  }
  inside_chunk = false;
  if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == count) done.notify_one();
  return true;
}

void ThreadPool::Impl::work() {
  uint32_t seen = wake.load(std::memory_order_acquire);
  for (;;) {
    // `stop` is read after `seen`, so that a worker that starts while the pool is being destroyed
    // does not wait for a wake that has already happened.
    if (stop.load(std::memory_order_acquire)) return;
    while (step(ticket.load(std::memory_order_acquire) >> 32)) {
    }
    int spins = 0;
    while (wake.load(std::memory_order_acquire) == seen && ++spins < kSpins) pause_cpu();
    if (spins >= kSpins) {
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      wake.wait(seen, std::memory_order_seq_cst);
      sleepers.fetch_sub(1, std::memory_order_relaxed);
    }
    seen = wake.load(std::memory_order_acquire);
  }
}

// Starts the workers at the first job, and again in a forked child, because the parent's threads do
// not exist there.
void ThreadPool::Impl::start() {
  if (owner == getpid()) return;
  for (std::thread& dead : workers) forget_thread(dead);
  workers.clear();
  sleepers.store(0);
  owner = getpid();
  for (int i = 1; i < threads; ++i) workers.emplace_back([this] { work(); });
}

void ThreadPool::Impl::run(int64_t count, ChunkFn f, void* c, const Task* task) {
  const std::unique_lock lock = lock_with_task(callers, task);
  start();
  const uint64_t job = ((ticket.load(std::memory_order_relaxed) >> 32) + 1) & 0xFFFFFFFFu;
  // A late worker of the last job finds no chunk.
  ticket.store(job << 32 | kClosed, std::memory_order_seq_cst);
  fn.store(f, std::memory_order_release);
  context.store(c, std::memory_order_release);
  chunks.store(static_cast<uint32_t>(count), std::memory_order_release);
  done.store(0, std::memory_order_relaxed);
  failed.store(false, std::memory_order_relaxed);
  error = nullptr;
  ticket.store(job << 32, std::memory_order_seq_cst);
  wake.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) wake.notify_all();
  while (step(job)) {
  }
  for (int spins = 0; done.load(std::memory_order_acquire) != static_cast<uint32_t>(count);) {
    if (++spins < kSpins) {
      pause_cpu();
      continue;
    }
    const uint32_t now = done.load(std::memory_order_acquire);
    if (now != static_cast<uint32_t>(count)) done.wait(now, std::memory_order_acquire);
  }
  if (failed.load(std::memory_order_acquire)) std::rethrow_exception(error);
}

namespace {

// A job on the threads of a runner. It counts finished chunks and keeps the first exception.
struct RunnerJob {
  ThreadPool::ChunkFn fn;
  void* context;
  std::atomic<int64_t> done{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;

  static void chunk(void* self, int64_t index) {
    auto& job = *static_cast<RunnerJob*>(self);
    const FloatMode numbers; // a host's thread has the host's mode
    const bool nested = std::exchange(inside_chunk, true);
    try {
      if (!job.failed.load(std::memory_order_relaxed)) job.fn(job.context, index);
    } catch (...) {
      if (!job.failed.exchange(true)) job.error = std::current_exception();
    }
    inside_chunk = nested;
    job.done.fetch_add(1, std::memory_order_acq_rel);
  }
};

void run_with(TaskRunner& runner, int64_t chunks, ThreadPool::ChunkFn fn, void* context) {
  RunnerJob job{fn, context};
  runner.run(chunks, &RunnerJob::chunk, &job);
  const int64_t done = job.done.load(std::memory_order_acquire);
  if (done != chunks)
    fail(Code::internal, "the task runner returned after {} of {} chunks", done, chunks);
  if (job.failed.load(std::memory_order_acquire)) std::rethrow_exception(job.error);
}

} // namespace

ThreadPool::ThreadPool(int threads, std::shared_ptr<TaskRunner> runner)
    : impl_(std::make_unique<Impl>(threads < 1 ? 1 : threads, std::move(runner))) {}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true, std::memory_order_release);
  impl_->wake.fetch_add(1, std::memory_order_seq_cst);
  impl_->wake.notify_all();
  const bool forked = impl_->owner != 0 && impl_->owner != getpid();
  for (std::thread& worker : impl_->workers) {
    if (forked)
      forget_thread(worker);
    else
      worker.join();
  }
}

int ThreadPool::threads() const {
  return impl_->threads;
}

void ThreadPool::run(int64_t chunks, ChunkFn fn, void* context, const Task* task) {
  const bool serial = impl_->threads == 1 || chunks <= 1 || inside_chunk;
  if (serial || chunks >= int64_t{kClosed}) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) fn(context, chunk);
    return;
  }
  TaskRunner* const runner = impl_->runner.get();
  if (runner == nullptr || !runner->is_usable()) return impl_->run(chunks, fn, context, task);
  std::unique_lock<std::timed_mutex> turn;
  if (!runner->is_concurrent()) turn = lock_with_task(impl_->callers, task);
  run_with(*runner, chunks, fn, context);
}

} // namespace dllm
