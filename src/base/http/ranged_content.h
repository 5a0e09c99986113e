#pragma once
// A file of a server that is read by ranges of bytes: an object of a store, a file of the hub.

#include "base/files.h"
#include "base/task.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace dllm::http {

// Decides which ranges are requested. A large read sends several requests at once. A small read
// fetches a window and keeps it, so the header of a file and the small tensors after it take one
// request. Large arrays are fetched exactly as requested. While reads follow one another the
// window doubles, so a reader that ends early has loaded at most about twice what it read.
class RangedContent : public Content {
public:
  int64_t piece() const override;
  Bytes read(int64_t at, int64_t size) const override;
  void read_to(int64_t at, int64_t size, void* to) const override;
  // Bytes that were not announced share one window. The window of an announced range does not reach
  // beyond its end.
  void announce(int64_t begin, int64_t end) const override;

protected:
  // first_window: bytes of the first window of a range.
  explicit RangedContent(int64_t first_window) : first_window_(first_window) {}

  // Copies bytes [at, at + size) of the file to `to`. Several threads call at once.
  virtual void fetch(int64_t at, int64_t size, char* to, const Task* task) const = 0;
  // Returns the task of the reads of this thread, which may be null.
  virtual const Task* task() const = 0;

private:
  // Consecutive reads of [begin, end), and the window that is kept for them.
  struct Run {
    int64_t begin = 0, end = 0;
    int64_t window = 0;                     // bytes of the last window; 0: none yet
    int64_t read_begin = -1, read_end = -1; // of the last read
    bool is_useful = true;                  // a later read used the kept window
    int64_t kept_at = 0, kept_size = 0;
    std::unique_ptr<char[]> kept = nullptr;
  };

  Run& run_of(int64_t at, int64_t size) const;
  int64_t reach_of(Run& run, int64_t at, int64_t wanted, bool goes_on) const;
  void keep_from(Run& run, int64_t at, int64_t size) const;
  void fetch_ranges(int64_t at, int64_t size, char* to) const;

  const int64_t first_window_;
  mutable std::mutex mutex_;      // one read at a time
  mutable std::vector<Run> runs_; // first the whole file, then announced ranges
};

} // namespace dllm::http
