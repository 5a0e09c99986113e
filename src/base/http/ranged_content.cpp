#include "base/http/ranged_content.h"

#include "base/http/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dllm::http {
namespace {

constexpr int64_t kRange = int64_t{8} << 20; // most bytes of one request
constexpr int64_t kSmall = int64_t{64} << 10;
constexpr size_t kMostRuns = 24; // at once; a row of a table has fewer columns that are read

} // namespace

int64_t RangedContent::piece() const {
  return kRange * kTransfersAtOnce;
}

Bytes RangedContent::read(int64_t at, int64_t size) const {
  if (size == 0) return {};
  const std::shared_ptr<char[]> memory(new char[static_cast<size_t>(size)]);
  read_to(at, size, memory.get());
  return {memory.get(), static_cast<size_t>(size), memory};
}

void RangedContent::announce(int64_t begin, int64_t end) const {
  const std::lock_guard lock(mutex_);
  if (runs_.empty()) runs_.push_back({.end = size()});
  if (runs_.size() == kMostRuns) runs_.erase(runs_.begin() + 1);
  runs_.push_back({.begin = begin, .end = end});
}

// Returns the run that holds a read; the newest first. A run that was read to its end is dropped.
RangedContent::Run& RangedContent::run_of(int64_t at, int64_t size) const {
  if (runs_.empty()) runs_.push_back({.end = this->size()});
  const auto is_over = [&](const Run& run) { return run.read_end == run.end && at != run.begin; };
  runs_.erase(std::remove_if(runs_.begin() + 1, runs_.end(), is_over), runs_.end());
  for (size_t i = runs_.size(); i-- > 1;) {
    if (at >= runs_[i].begin && at + size <= runs_[i].end) return runs_[i];
  }
  return runs_.front();
}

namespace {

// Copies the bytes from `at` on that a window holds, at most `size`, and returns their number.
int64_t take_kept(const char* kept, int64_t kept_at, int64_t kept_size, int64_t at, int64_t size,
                  char* to) {
  const int64_t skip = at - kept_at;
  if (skip < 0 || skip >= kept_size) return 0;
  const int64_t part = std::min(size, kept_size - skip);
  std::memcpy(to, kept + skip, static_cast<size_t>(part));
  return part;
}

} // namespace

void RangedContent::read_to(int64_t at, int64_t size, void* to) const {
  char* out = static_cast<char*>(to);
  const std::lock_guard lock(mutex_);
  Run& run = run_of(at, size);
  const bool goes_on = at > run.read_begin && at <= run.read_end;
  run.read_begin = at;
  run.read_end = at + size;
  const int64_t held = take_kept(run.kept.get(), run.kept_at, run.kept_size, at, size, out);
  if (held > 0) run.is_useful = true;
  at += held;
  size -= held;
  out += held;
  if (size == 0) return;
  const int64_t reach = reach_of(run, at, size, goes_on);
  if (reach <= size) return fetch_ranges(at, size, out);
  keep_from(run, at, reach);
  take_kept(run.kept.get(), run.kept_at, run.kept_size, at, size, out);
}

// Returns the number of bytes to fetch for a read of `wanted` bytes. A small read elsewhere (some
// columns of a matrix) fetches the first window only if a later read has used the previous window.
int64_t RangedContent::reach_of(Run& run, int64_t at, int64_t wanted, bool goes_on) const {
  if (!goes_on) run.window = 0;
  if (!goes_on && (wanted >= kSmall || !run.is_useful)) return wanted;
  run.window = run.window == 0 ? first_window_ : std::min(kRange, 2 * run.window);
  return std::min(run.end - at, std::max(wanted, run.window));
}

void RangedContent::keep_from(Run& run, int64_t at, int64_t size) const {
  const auto room = static_cast<size_t>(std::min(kRange, run.end - run.begin));
  if (run.kept == nullptr) run.kept.reset(new char[room]);
  run.kept_size = 0; // nothing is kept if the fetch fails
  fetch_ranges(at, size, run.kept.get());
  run.kept_at = at;
  run.kept_size = size;
  run.is_useful = false;
}

void RangedContent::fetch_ranges(int64_t at, int64_t size, char* to) const {
  const int64_t count = (size + kRange - 1) / kRange;
  run_transfers(count, task(), [&](int64_t index, const Task* own) {
    const int64_t begin = index * kRange;
    fetch(at + begin, std::min(kRange, size - begin), to + begin, own);
  });
}

} // namespace dllm::http
