#pragma once
// What other threads may read of a decoder: copies of its requests, made at the end of each complete step, and their traces.

#include "base/error.h"
#include "decode/pass/pass.h"
#include "decode/request/request.h"

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// What a step did, as one line of JSON: what live views, replays and tests read.
// {"slot", "block", "step", "nfe", "open", "decided": [positions], "ids", "states", "confidence"}
// and a line break.
std::string trace_line(const Request& request, std::span<const int64_t> decided);

// The lines of one request, at most so many bytes of them. One thread adds; others may read the lines
// that were there when a copy of the request was published (published.h), without a lock: lines
// never move and never change.
class TraceLog {
public:
  explicit TraceLog(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // A line that does not fit is left out, and a last one says that recording stopped:
  // {"slot", "step": of the first step left out, "stopped": "trace_bytes", "bytes": of the lines}.
  void add(const Request& request, std::span<const int64_t> decided);
  size_t lines() const { return lines_.size(); }
  std::string text(size_t lines) const; // the first so many

private:
  std::list<std::string> lines_;
  int64_t most_bytes_, bytes_ = 0;
  bool stopped_ = false;
};

struct RequestCopy {
  int64_t number = 0;
  std::vector<int32_t> ids;
  std::vector<State> states;
  std::vector<float> confidence;
  Finish finish = Finish::running;
  std::shared_ptr<const Error> failure; // null: it did not fail
  int64_t open = 0, steps = 0, evaluations = 0, nfe = 0, prefills = 0, commits = 0, launches = 0,
          round_trips = 0, decided = 0; // as in Request; nfe as the policy counts it
  std::shared_ptr<const std::vector<Prediction>> predictions; // null: none wait for a commit
  std::shared_ptr<const TraceLog> trace;                      // null: none is kept
  size_t trace_lines = 0;                                     // up to this step

  int64_t length() const { return static_cast<int64_t>(ids.size()); }
  bool active() const { return finish == Finish::running; }
};
using RequestCopyRef = std::shared_ptr<const RequestCopy>;

// Of the decoder as a whole.
struct DecoderTotals {
  int64_t launches = 0, round_trips = 0;
  int64_t cache_bytes = 0, cache_rows = 0, cache_capacity = 0, reused = 0;
  int64_t computed = 0; // positions, padding included
};

// One thread writes; any may read. A lock is held while references are copied, never longer.
class Published {
public:
  using Slots = std::map<int64_t, RequestCopyRef>;
  struct All {
    Slots slots;
    DecoderTotals totals;
  };

  // These slots are as in `changed`; the others stay, or are removed.
  void put(Slots changed, const DecoderTotals& totals, bool drop_others = false);
  void remove(int64_t number, const DecoderTotals& totals);

  RequestCopyRef request(int64_t number) const; // fails with not_found
  All all() const;                              // of one moment

private:
  mutable std::mutex mutex_;
  All now_;
};

} // namespace dllm::decode
