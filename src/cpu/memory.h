#pragma once
// Memory an engine owns: aligned blocks, counted, with an optional limit; arenas of runs, and runs that wait for memory.

#include "base/meter.h"
#include "base/task.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dllm::cpu {

inline constexpr int64_t kAlignment = 64; // bytes: a cache line, and the widest vector

inline int64_t align_up(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// "3.2 MiB"

// Memory of a host in place of malloc. Any thread.
class HostMemory {
public:
  virtual ~HostMemory() = default;
  virtual void* allocate(int64_t bytes, int64_t alignment) = 0; // null: refused
  virtual void free(void* memory, int64_t bytes) = 0;           // bytes: as in allocate
};

// What a block is for: large blocks of a run are kept for the next one when they are freed.
enum class BlockUse : uint8_t { lasting, run };

// Memory of one engine, counted. Any thread.
//
// A freed large block goes back to the system, and the next one costs its pages anew: 6 to 8 % of a step that writes the logits
// of 256 rows. So large blocks of runs are kept, within a bound: blocks in use and kept ones together never exceed the
// peak that blocks in use have reached, nor the limit. So keeping takes no more memory from the machine than the engine has
// needed already, and no allocation is refused because of it.
class MemoryLedger {
public:
  struct Piece {
    std::byte* data = nullptr;
    int64_t bytes = 0; // counted
  };

  // host: where blocks come from; null: malloc.
  explicit MemoryLedger(std::shared_ptr<HostMemory> host = nullptr) : host_(std::move(host)) {
    kept_.reserve(kMostKept + 1);
  }
  ~MemoryLedger() { drop_kept(); }
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // At least `bytes`, a kept piece of about that size where there is one; data null: refused.
  Piece allocate(int64_t bytes, BlockUse use);
  void free(Piece piece, BlockUse use);
  // Memory that others hold for the engine.
  void add(int64_t bytes);
  void remove(int64_t bytes);

  int64_t used() const { return used_.load(std::memory_order_relaxed); } // without kept blocks
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); } // 0: none
  int64_t kept() const { return kept_bytes_.load(std::memory_order_relaxed); }
  void set_limit(int64_t bytes);
  bool fits(int64_t bytes) const { return limit() == 0 || used() + bytes <= limit(); }
  // Frees what is kept. False: nothing was.
  bool drop_kept();
  // From now on nothing is kept.
  void close();

private:
  static constexpr size_t kMostKept = 8; // a run has few large results; the search stays short

  // Pieces on their way to the system. Declared before the lock, so freed after it: to unmap a large block takes
  // milliseconds, and others wait for the lock.
  struct Dropped {
    explicit Dropped(const MemoryLedger& ledger) : ledger(ledger) {}
    ~Dropped() {
      for (size_t i = 0; i < count; ++i) ledger.to_system(pieces[i]);
    }
    Dropped(const Dropped&) = delete;
    Dropped& operator=(const Dropped&) = delete;

    const MemoryLedger& ledger;
    size_t count = 0;
    Piece pieces[kMostKept + 1];
  };

  std::byte* from_system(int64_t bytes) const;
  void to_system(Piece piece) const;
  Piece take_kept_locked(int64_t bytes);
  void count_locked(int64_t bytes);
  void drop_locked(int64_t most, Dropped& to);
  void keep_to_bound_locked(int64_t coming, Dropped& to);

  std::shared_ptr<HostMemory> host_;
  std::mutex mutex_; // of changes
  std::atomic<int64_t> used_{0}, peak_{0}, limit_{0}, kept_bytes_{0};
  std::vector<Piece> kept_; // the oldest first
  bool closed_ = false;
};

// One aligned piece of memory, contents undefined. Keeps its ledger alive.
class Block {
public:
  // Fails with resource_exhausted when the ledger's limit or the machine's memory is spent; `what`
  // names the use.
  Block(std::shared_ptr<MemoryLedger> ledger, int64_t bytes, const char* what,
        BlockUse use = BlockUse::lasting);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const { return piece_.data; }
  int64_t bytes() const { return bytes_; }

private:
  std::shared_ptr<MemoryLedger> ledger_;
  MeterCharge charge_; // of the script whose call this is, if any
  MemoryLedger::Piece piece_;
  int64_t bytes_;
  BlockUse use_;
};

// Arenas between runs: each run takes one and returns it. All programs of an engine share them, so
// runs one after the other need one arena, of the largest program; runs at the same time need one each. At
// most four idle ones are kept, one when the ledger has a limit. Any thread.
class ArenaStore {
public:
  explicit ArenaStore(std::shared_ptr<MemoryLedger> ledger) : ledger_(std::move(ledger)) {}

  std::unique_ptr<Block> take(int64_t bytes);
  void give(std::unique_ptr<Block> arena);
  void trim();
  int64_t idle_bytes() const;

private:
  std::shared_ptr<MemoryLedger> ledger_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> idle_;
};

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
