#pragma once
// The CPU engine: plans graphs, owns its threads, memory and arenas. Everything may be called from
// any thread.

#include "base/options.h"
#include "base/parallel.h"
#include "comm/communicator.h"
#include "cpu/memory.h"
#include "graph/engine.h"
#include "tensor/weight_format.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace dllm::cpu {

// What a host does in place of the engine; null members: the engine itself does.
struct Hooks {
  std::shared_ptr<HostMemory> memory;
  std::shared_ptr<TaskRunner> runner;
};

// Options mesh and ranks: an engine of several ranks, each with its share of the threads and of memory_limit.
std::shared_ptr<graph::Engine> make_engine(const Options& options, const Hooks& hooks = {});
// One rank of a mesh: compiles for every mesh of communicator->size() ranks, as rank communicator->rank(), and for a mesh
// of one (such programs do not communicate). Each rank has an engine of its own, in this process or another. Options mesh
// and ranks are not read.
std::shared_ptr<graph::Engine> make_rank_engine(const Options& options,
                                                std::shared_ptr<comm::Communicator> communicator,
                                                const Hooks& hooks = {});
// All ranks of a mesh in this process (cpu/ranks/). Fails with invalid_argument where a host runs the threads.
std::shared_ptr<graph::Engine> make_ranks_engine(const Options& options, const graph::Mesh& mesh,
                                                 const Hooks& hooks);
// One rank, this process, of a mesh of all processes that mpirun started (cpu/ranks/). Every process makes one. Fails with
// invalid_argument where the mesh has another number of ranks, with unavailable without MPI.
std::shared_ptr<graph::Engine> make_process_engine(const Options& options, const Hooks& hooks);
// The same of ranks that are connected already.
std::shared_ptr<graph::Engine> make_process_engine(const Options& options,
                                                   std::shared_ptr<comm::Communicator> communicator,
                                                   const Hooks& hooks);

// Shared by an engine, its programs and its buffers; destroyed with the last of them.
class EngineState {
public:
  // thread_pool: own or openmp, as the option of engine_schema().
  EngineState(int threads, const std::string& thread_pool, int64_t memory_limit, bool check_finite,
              Arithmetic arithmetic, std::shared_ptr<comm::Communicator> communicator = nullptr,
              const Hooks& hooks = {});
  ~EngineState() { ledger_->close(); } // results that a caller holds live on, and keep nothing
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
  comm::Communicator* communicator() const { return communicator_.get(); } // null: one rank
  // Before and after a run on several ranks; one run at a time. begin_run() after a failed run waits until the other
  // ranks begin their next run as well, then lets the communicator work again. Fails with failed_precondition when the
  // ranks have not finished the same number of runs: then one of them has a result that the others lack.
  void begin_run(const Task* task);
  void end_run() { ++finished_runs_; }
  void fail_run(const Error& reason) noexcept;
  std::atomic<int64_t>& compiles() { return compiles_; }

private:
  const std::shared_ptr<TaskRunner> runner_; // of the host, or null
  const bool openmp_;
  std::shared_ptr<MemoryLedger> ledger_;
  ArenaStore arenas_;
  RunGate gate_;
  const std::shared_ptr<comm::Communicator> communicator_;
  int64_t finished_runs_ = 0; // on several ranks
  bool run_failed_ = false;   // the last one
  const bool check_finite_;
  const Arithmetic arithmetic_;
  std::atomic<int64_t> compiles_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<ThreadPool> pool_;
};

} // namespace dllm::cpu
