#pragma once
// The one seam for threads. Chunks cut outputs only, so who runs a chunk never changes a bit; reductions keep fixed
// borders and are summed in index order by the caller.

#include <cstdint>
#include <memory>
#include <type_traits>

namespace dllm {

// A pool owned by an engine. The calling thread may claim every chunk itself and waits only for chunks somebody
// really started, so a busy machine never stalls it. Any host thread may call; calls from several threads are served
// one after the other, a nested call runs inline. Idle workers sleep. A forked child starts its own workers lazily.
class ThreadPool {
 public:
  using ChunkFn = void (*)(void* context, int64_t chunk);

  explicit ThreadPool(int threads);  // counts the caller; 1: no worker at all
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Runs fn(context, 0..chunks-1). The first exception of a chunk is rethrown here after all started chunks ended.
  void run(int64_t chunks, ChunkFn fn, void* context);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// CPUs this process may use: affinity mask and cgroup quota, at least 1.
int allowed_cpus();

// pool may be null: runs inline.
template <class F>
void parallel(ThreadPool* pool, int64_t chunks, F&& fn) {
  if (pool == nullptr || chunks <= 1) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) fn(chunk);
    return;
  }
  using Fn = std::remove_reference_t<F>;
  pool->run(chunks, [](void* context, int64_t chunk) { (*static_cast<Fn*>(context))(chunk); }, &fn);
}

}  // namespace dllm
