#pragma once
// Runs at the same time under a memory limit: a run that does not fit next to those in progress waits for them.

#include "base/task.h"
#include "cpu/memory.h"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace dllm::cpu {

// One gate per engine. Without a limit every run enters at once. Any thread.
class RunGate {
public:
  // arenas: of the same engine; idle ones are free for the next run.
  RunGate(std::shared_ptr<MemoryLedger> ledger, const ArenaStore& arenas)
      : ledger_(std::move(ledger)), arenas_(arenas) {}

  // A run in progress: leaves the gate when it ends.
  class Pass {
  public:
    Pass(RunGate& gate, int64_t bytes) : gate_(gate), bytes_(bytes) {}
    ~Pass() { gate_.leave(bytes_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    // The run holds its memory now: the ledger counts it.
    void has_allocated() {
      gate_.forget(bytes_);
      bytes_ = 0;
    }
    // A run that is left for a while keeps its memory, but others do not wait for its end: one that is
    // alone with such runs enters, and fails by itself where its memory is refused.
    void pause() { gate_.count(-1); }
    void resume() { gate_.count(1); }

  private:
    RunGate& gate_;
    int64_t bytes_; // still to be allocated
  };

  // bytes: what the run will allocate. waits false: enters at once (ranks that wait for each other must not
  // wait here). A run that is alone enters always, and fails by itself where its memory is refused. Checks
  // the task while it waits.
  Pass enter(int64_t bytes, bool waits, const Task* task);

private:
  void forget(int64_t bytes);
  void leave(int64_t bytes);
  void count(int64_t change);

  std::shared_ptr<MemoryLedger> ledger_;
  const ArenaStore& arenas_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t running_ = 0;
  int64_t expected_ = 0; // bytes that runs in progress have not allocated yet
};

} // namespace dllm::cpu
