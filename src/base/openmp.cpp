// Threads of OpenMP as a task runner. Compiled where the compiler has OpenMP; otherwise no_openmp.cpp takes its place.
#include "base/parallel.h"

#include <omp.h>
#include <unistd.h>

namespace dllm {
namespace {

// GNU OpenMP keeps the team of a thread for its next region. In a forked child that team has no threads and the region
// would wait for them for ever, so a child leaves OpenMP alone.
pid_t process_with_teams() {
  static const pid_t process = getpid();
  return process;
}

class OpenMpRunner final : public TaskRunner {
public:
  explicit OpenMpRunner(int threads) : threads_(threads) { process_with_teams(); }

  void run(int64_t count, ChunkFn chunk, void* job) override {
    // Always the same number: a team that shrinks ends threads, and one that grows starts them again.
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
    for (int64_t i = 0; i < count; ++i) chunk(job, i);
  }
  // Each calling thread has a team of its own: one after the other, so that an engine computes with `threads` threads.
  bool is_concurrent() const override {
    return false;
  }
  bool is_usable() const override {
    return process_with_teams() == getpid();
  }

private:
  const int threads_;
};

} // namespace

bool has_openmp() {
  return true;
}

std::shared_ptr<TaskRunner> openmp_runner(int threads) {
  return std::make_shared<OpenMpRunner>(threads);
}

int openmp_threads() {
  return omp_get_max_threads();
}

} // namespace dllm
