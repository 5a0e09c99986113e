#pragma once
// Prefetch makes batches ahead of their use, on its own thread.

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

// The result of make(): a batch, an error, or neither at the end of the data.
struct MadeBatch {
  std::optional<Batch> batch;
  int64_t rows = 0; // rows of the step, over all ranks
  std::exception_ptr error;
};

// Calls make(position) for consecutive positions, at most `depth` batches ahead of take(). It makes
// at most `most` batches and stops at the end of the data and at an error. The destructor waits for
// the batch that is being made. One thread at a time may call take() or the destructor, and only
// the thread of this object may call `make` while the object lives.
class Prefetch {
public:
  using Make = std::function<MadeBatch(int64_t position)>;

  Prefetch(Make make, int64_t position, int64_t most, size_t depth);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // Waits for the next batch and returns it; an error is in MadeBatch::error. Returns nothing when
  // no batch is left, after which the thread does not call `make` any more.
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

  // A forked child does not destroy it: there the thread does not exist, and the mutex may be held.
  std::unique_ptr<Shared> shared_;
  pid_t process_;
};

} // namespace dllm::text
