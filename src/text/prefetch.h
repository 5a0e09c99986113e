#pragma once
// Batches made ahead of their use, on a thread of its own.

#include "tensor/batch.h"

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace dllm::text {

// What was made at a position: a batch with its rows (over all ranks), the end of the data (neither), or an error.
struct MadeBatch {
  std::optional<Batch> batch;
  int64_t rows = 0;
  std::exception_ptr error;
};

// Calls make(position) for one position after the other, at most `depth` batches ahead of take() and `most` in all; it ends at
// the end of the data and at an error. The destructor cancels: it waits for the batch that is being made.
// take() and the destructor come from one thread at a time; while this lives only its thread calls `make`.
class Prefetch {
public:
  using Make = std::function<MadeBatch(int64_t position)>;

  Prefetch(Make make, int64_t position, int64_t most, size_t depth);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The next one in order; waits for it. An error comes at its turn, in MadeBatch::error. Nothing: no more are made, and the
  // thread uses `make` no more.
  std::optional<MadeBatch> take();

private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<MadeBatch> made; // these three guarded by mutex
    bool is_over = false;
    bool is_cancelled = false;
    std::thread thread;
  };
  void run(const Make& make, int64_t position, int64_t most, size_t depth);
  bool is_forked() const;

  // Not destroyed in a forked child: the thread does not exist there, and may have held the mutex.
  std::unique_ptr<Shared> shared_;
  pid_t process_;
};

} // namespace dllm::text
