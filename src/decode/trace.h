#pragma once
// What a step did, as one line of JSON: what live views, replays and tests read.

#include "decode/slot.h"

#include <cstdint>
#include <list>
#include <span>
#include <string>

namespace dllm::decode {

// {"slot", "block", "step", "nfe", "open", "decided": [positions], "ids", "states", "confidence"}
// and a line break.
std::string trace_line(const Slot& slot, std::span<const int64_t> decided);

// The lines of one request, at most `bound` bytes of them. One thread adds; others may read the lines
// that were there when a copy of the request was published (published.h), without a lock: lines
// never move and never change.
class TraceLog {
public:
  explicit TraceLog(int64_t bound) : bound_(bound) {}

  // A line that does not fit is left out, and a last one says that recording stopped:
  // {"slot", "step": of the first step left out, "stopped": "trace_bytes", "bytes": of the lines}.
  void add(const Slot& slot, std::span<const int64_t> decided);
  size_t lines() const { return lines_.size(); }
  std::string text(size_t lines) const; // the first so many

private:
  std::list<std::string> lines_;
  int64_t bound_, bytes_ = 0;
  bool stopped_ = false;
};

} // namespace dllm::decode
