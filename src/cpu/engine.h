#pragma once
// The CPU engine: plans graphs, owns its threads, memory and arenas. Everything may be called from
// any thread.

#include "base/options.h"
#include "base/parallel.h"
#include "cpu/memory.h"
#include "graph/engine.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace dllm::cpu {

std::shared_ptr<graph::Engine> make_engine(const Options& options);

// What programs and buffers share with their engine; lives until the last of them is gone.
class EngineState {
public:
  EngineState(int threads, int64_t memory_limit, bool check_finite);

  std::shared_ptr<ThreadPool> pool() const;
  void set_threads(int threads);
  bool check_finite() const { return check_finite_; }
  const std::shared_ptr<MemoryLedger>& ledger() const { return ledger_; }
  ArenaStore& arenas() { return arenas_; }
  std::atomic<int64_t>& compiles() { return compiles_; }

private:
  std::shared_ptr<MemoryLedger> ledger_;
  ArenaStore arenas_;
  const bool check_finite_;
  std::atomic<int64_t> compiles_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<ThreadPool> pool_;
};

} // namespace dllm::cpu
