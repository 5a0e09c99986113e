// The task runner of OpenMP. If the compiler lacks OpenMP, no_openmp.cpp is compiled instead of
// this file.
#include "base/threads/parallel.h"

#include <omp.h>
#include <unistd.h>

namespace dllm {
namespace {

// Returns the process in which the OpenMP teams were made. GNU OpenMP reuses a thread's team for
// its next region. In a forked child the team's threads do not exist and a region would wait
// forever, so a child does not use OpenMP.
pid_t process_with_teams() {
  static const pid_t process = getpid();
  return process;
}

class OpenMpRunner final : public TaskRunner {
public:
  explicit OpenMpRunner(int threads) : threads_(threads) { process_with_teams(); }

  void run(int64_t count, ChunkFn chunk, void* job) override {
    // The number of threads is constant, because resizing a team ends and starts threads.
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
    for (int64_t i = 0; i < count; ++i) chunk(job, i);
  }
  // Every calling thread would have its own team. One job at a time keeps an engine at `threads`
  // threads.
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
