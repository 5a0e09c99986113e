#pragma once
// The memory that an engine owns. This header has aligned and counted blocks with an optional
// limit, the arenas of runs, and the gate where runs wait for memory.

#include "base/task.h"
#include "base/threads/meter.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dllm::cpu {

inline constexpr int64_t kAlignment = 64; // bytes of a cache line and of the widest vector

inline int64_t align_up(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Memory that a host provides in place of malloc. Its functions are called from any thread.
class HostMemory {
public:
  virtual ~HostMemory() = default;
  // Returns null when the host refuses.
  virtual void* allocate(int64_t bytes, int64_t alignment) = 0;
  // `bytes` is the size that was passed to allocate().
  virtual void free(void* memory, int64_t bytes) = 0;
};

// The use of a block. Large blocks of a run are kept for the next run when they are freed.
enum class BlockUse : uint8_t { lasting, run };

// MemoryLedger counts the memory of one engine. Its functions may be called from any thread.
//
// A large block that malloc returns to the system costs its pages again when the next one is
// allocated. This took 6 to 8 % of a step that writes the logits of 256 rows. So freed large blocks
// of runs are kept. Blocks in use and kept blocks together never exceed the limit, nor the peak of
// the blocks in use. So kept blocks need no more memory than the engine has used already, and no
// allocation is refused because of them.
class MemoryLedger {
public:
  struct Piece {
    std::byte* data = nullptr;
    int64_t bytes = 0; // as counted by the ledger
  };

  // `host` allocates the blocks. When it is null, malloc does.
  explicit MemoryLedger(std::shared_ptr<HostMemory> host = nullptr) : host_(std::move(host)) {
    kept_.reserve(kMostKept + 1);
  }
  ~MemoryLedger() { drop_kept(); }
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // Returns a piece of at least `bytes`, which may be a kept piece of about that size. The data is
  // null when the memory is refused.
  Piece allocate(int64_t bytes, BlockUse use);
  void free(Piece piece, BlockUse use);
  // add() and remove() count memory that another owner holds for the engine.
  void add(int64_t bytes);
  void remove(int64_t bytes);

  // Returns the bytes in use, without kept blocks.
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  // Returns the limit in bytes, or 0 for none.
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  int64_t kept() const { return kept_bytes_.load(std::memory_order_relaxed); }
  void set_limit(int64_t bytes);
  bool fits(int64_t bytes) const { return limit() == 0 || used() + bytes <= limit(); }
  // Frees the kept blocks. Returns false when there are none.
  bool drop_kept();
  // Frees the kept blocks and keeps none from now on.
  void close();

private:
  static constexpr size_t kMostKept = 8; // a run has few large results, and the search stays short

  // Pieces to return to the system. A function declares it before its lock, so it is destroyed
  // after the lock is released. To unmap a large block takes milliseconds, and other threads wait
  // for the lock.
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
  std::mutex mutex_; // held while a member changes
  std::atomic<int64_t> used_{0}, peak_{0}, limit_{0}, kept_bytes_{0};
  std::vector<Piece> kept_; // the oldest first
  bool closed_ = false;
};

// Block owns one aligned piece of memory with undefined contents. It keeps its ledger alive.
class Block {
public:
  // Fails with resource_exhausted when the ledger's limit or the machine's memory is used up.
  // `what` names the use in the error.
  Block(std::shared_ptr<MemoryLedger> ledger, int64_t bytes, const char* what,
        BlockUse use = BlockUse::lasting);
  // A part of `whole`, which it keeps alive.
  Block(std::shared_ptr<const Block> whole, int64_t offset, int64_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const { return piece_.data; }
  int64_t bytes() const { return bytes_; }

private:
  std::shared_ptr<MemoryLedger> ledger_; // null: a part
  std::shared_ptr<const Block> whole_;   // null: not a part
  MeterCharge charge_; // counts the bytes for the script that makes the call, if there is one
  MemoryLedger::Piece piece_;
  int64_t bytes_;
  BlockUse use_;
};

// ArenaStore keeps idle arenas, which all programs of an engine share. Each run takes an arena and
// returns it. Consecutive runs need one arena of the largest program; runs at the same time need
// one each. At most four idle arenas are kept, or one when the ledger has a limit. Its functions
// may be called from any thread.
class ArenaStore {
public:
  explicit ArenaStore(std::shared_ptr<MemoryLedger> ledger) : ledger_(std::move(ledger)) {
    idle_.reserve(kMostIdle);
  }

  std::unique_ptr<Block> take(int64_t bytes);
  void give(std::unique_ptr<Block> arena) noexcept;
  void trim();
  int64_t idle_bytes() const;

private:
  static constexpr size_t kMostIdle = 4;

  std::shared_ptr<MemoryLedger> ledger_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> idle_;
};

// RunGate lets a run enter when its memory fits the limit; an engine has one gate. Without a limit
// every run enters at once. Its functions may be called from any thread.
class RunGate {
public:
  // `arenas` is the store of the same engine. The gate counts its idle arenas as free memory.
  RunGate(std::shared_ptr<MemoryLedger> ledger, const ArenaStore& arenas)
      : ledger_(std::move(ledger)), arenas_(arenas) {}

  // Pass is a run in progress. The run leaves the gate when the pass is destroyed.
  class Pass {
  public:
    Pass(RunGate& gate, int64_t bytes) : gate_(gate), bytes_(bytes) {}
    ~Pass() { gate_.leave(bytes_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    // Must be called when the run has allocated its memory, which the ledger counts from then on.
    void has_allocated() {
      gate_.forget(bytes_);
      bytes_ = 0;
    }
    // Called before and after a pause of the run. A paused run keeps its memory, but other runs do
    // not wait for it. A run that is alone with paused runs enters, and fails if its memory is
    // refused.
    void pause() { gate_.count(-1); }
    void resume() { gate_.count(1); }

  private:
    RunGate& gate_;
    int64_t bytes_; // not allocated yet
  };

  // Waits until `bytes`, which the run will allocate, fit the limit; checks the task meanwhile.
  // With `waits` false the run enters at once, because ranks that wait for each other must not wait
  // here. A run that is alone always enters, and fails if its memory is refused.
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
