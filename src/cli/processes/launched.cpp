// This file finds the rank of this process in a job of mpirun or srun, and prints only in the first
// process.

#include "process.h"

#include "../command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>

namespace dllm::cli {
namespace {

struct Job {
  int64_t rank = 0, size = 1;
};

int64_t number_of(const char* variable, int64_t fallback) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const long long number = std::strtoll(text, &end, 10);
  return end == text || number < 0 ? fallback : number;
}

// Open MPI's mpirun sets the first pair of variables, srun --mpi=pmix the second pair. A job of one
// task does not count as a job.
const Job& job() {
  static const Job made = [] {
    Job job;
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
      job = {number_of("OMPI_COMM_WORLD_RANK", 0), number_of("OMPI_COMM_WORLD_SIZE", 1)};
    } else if (std::getenv("PMIX_RANK") != nullptr) {
      job = {number_of("PMIX_RANK", 0), number_of("SLURM_STEP_NUM_TASKS", 1)};
    }
    return job.size > 1 ? job : Job();
  }();
  return made;
}

std::FILE* own_errors = nullptr; // standard error of a process that is not the first

} // namespace

int64_t job_rank() {
  return job().rank;
}
int64_t job_size() {
  return job().size;
}

void quiet_unless_first() {
  if (job().rank == 0) return;
  const int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  own_errors = kept < 0 ? nullptr : fdopen(kept, "w");
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

void print_failure_of_rank(const std::string& text) {
  // A failure that begins with "rank " comes from another rank, which prints it.
  if (own_errors == nullptr || text.rfind("rank ", 0) == 0) return;
  std::fprintf(own_errors, "dllm: rank %lld: %s\n", static_cast<long long>(job().rank),
               text.c_str());
  std::fflush(own_errors);
  // mpirun ends the whole job when one process has failed. The first may have the same failure, and
  // alone prints the hint.
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

void join_processes(const Command& command, Context& context) {
  constexpr const char* kJoined[] = {"train", "generate", "infill"};
  if (job().size == 1 || command.name == "run") return; // a script asks for processes by itself
  if (std::ranges::find(kJoined, command.name) == std::end(kJoined)) {
    throw UsageFailure("dllm " + command.name + " runs in one process, and " +
                           std::to_string(job().size) + " were started",
                       "start it without mpirun; train, generate and infill share the work");
  }
  if (context.typed("engine", "processes")) return;
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("engine"), "processes", "mpi", err);
  });
}

} // namespace dllm::cli
