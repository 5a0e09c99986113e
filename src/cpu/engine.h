#pragma once
// The CPU engine plans graphs and owns its threads, its memory and its arenas. Every function may
// be called from any thread.

#include "base/options.h"
#include "base/threads/parallel.h"
#include "comm/communicator.h"
#include "cpu/memory.h"
#include "graph/engine.h"
#include "tensor/weight_format.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace dllm::cpu {

// Memory and threads that a host provides. A member that is null leaves the service to the engine.
struct Hooks {
  std::shared_ptr<HostMemory> memory;
  std::shared_ptr<TaskRunner> runner;
};

// Makes the engine that the options describe. With the options mesh or ranks it has several ranks,
// and each rank gets its share of the threads and of memory_limit. With processes = mpi it is
// make_process_engine().
std::shared_ptr<graph::Engine> make_engine(const Options& options, const Hooks& hooks = {});
// Makes the engine of one rank, communicator->rank(). It compiles for every mesh of
// communicator->size() ranks and for a mesh of one rank, whose programs do not communicate. Each
// rank has an engine of its own, in this process or another. The options mesh and ranks are not
// read.
std::shared_ptr<graph::Engine> make_rank_engine(const Options& options,
                                                std::shared_ptr<comm::Communicator> communicator,
                                                const Hooks& hooks = {});
// Makes one engine of all ranks of a mesh, in this process (cpu/ranks/). Fails with
// invalid_argument when a host runs the threads.
std::shared_ptr<graph::Engine> make_ranks_engine(const Options& options, const graph::Mesh& mesh,
                                                 const Hooks& hooks);
// Makes the engine of this process, one rank of a mesh of all processes that mpirun started
// (cpu/ranks/). Every process must make one. Fails with invalid_argument when the mesh has another
// number of ranks, and with unavailable without MPI.
std::shared_ptr<graph::Engine> make_process_engine(const Options& options, const Hooks& hooks);
// Makes the engine of this process from a rank that is connected already.
std::shared_ptr<graph::Engine> make_process_engine(const Options& options,
                                                   std::shared_ptr<comm::Communicator> communicator,
                                                   const Hooks& hooks);

// The state that an engine shares with its programs and buffers. The last of them destroys it.
class EngineState {
public:
  // thread_pool is "own" or "openmp", as in the option of engine_schema().
  EngineState(int threads, const std::string& thread_pool, int64_t memory_limit, bool check_finite,
              Arithmetic arithmetic, std::shared_ptr<comm::Communicator> communicator = nullptr,
              const Hooks& hooks = {});
  // Results that a caller still holds stay valid; their memory is not kept for later runs.
  ~EngineState() { ledger_->close(); }
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  std::shared_ptr<ThreadPool> pool() const;
  void set_threads(int threads);
  const char* thread_pool() const; // own, openmp or host
  bool check_finite() const { return check_finite_; }
  Arithmetic arithmetic() const { return arithmetic_; }
  const std::shared_ptr<MemoryLedger>& ledger() const { return ledger_; }
  ArenaStore& arenas() { return arenas_; }
  RunGate& gate() { return gate_; }
  // Returns null for one rank.
  comm::Communicator* communicator() const { return communicator_.get(); }
  // Called before a run on several ranks, one run at a time. After a failed run it waits until the
  // other ranks begin their next run, then restarts the communicator. Fails with
  // failed_precondition when the ranks have finished different numbers of runs, because one rank
  // then has a result that others lack.
  void begin_run(const Task* task);
  // Called after a run on several ranks: end_run() after success, fail_run() after an error.
  void end_run() { ++finished_runs_; }
  void fail_run(const Error& reason) noexcept;
  std::atomic<int64_t>& compiles() { return compiles_; }

private:
  const std::shared_ptr<TaskRunner> runner_; // the host's; null: none
  const bool openmp_;
  std::shared_ptr<MemoryLedger> ledger_;
  ArenaStore arenas_;
  RunGate gate_;
  const std::shared_ptr<comm::Communicator> communicator_;
  int64_t finished_runs_ = 0; // runs on several ranks
  bool run_failed_ = false;   // the last run on several ranks failed
  const bool check_finite_;
  const Arithmetic arithmetic_;
  std::atomic<int64_t> compiles_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<ThreadPool> pool_;
};

} // namespace dllm::cpu
