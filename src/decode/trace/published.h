#pragma once
// A decoder publishes copies of its requests, its totals and its traces for other threads to read.
// They are as of the last complete step.

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

// Returns the canvas and the counters of a request after a step as one line of JSON:
//   {"slot", "block", "step", "nfe", "open", "decided": [positions], "ids", "states", "confidence"}
// The line ends with a line break. Live views, replays and tests read these lines.
std::string trace_line(const Request& request, std::span<const int64_t> decided);

// The trace of one request. The lines of its steps have at most `most_bytes` bytes in all. One
// thread adds lines. Other threads may read the lines that a RequestCopy counts (trace_lines)
// without a lock, because lines never move and never change.
class TraceLog {
public:
  explicit TraceLog(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // Adds the line of a step. If the line does not fit, it is left out and recording stops with the
  // line {"slot", "step", "stopped": "trace_bytes", "bytes"}. There "step" is the first step that
  // is left out, and "bytes" is the size of the lines before.
  void add(const Request& request, std::span<const int64_t> decided);
  size_t lines() const { return lines_.size(); }
  std::string text(size_t lines) const; // the first `lines` lines

private:
  std::list<std::string> lines_;
  int64_t most_bytes_, bytes_ = 0;
  bool stopped_ = false;
};

// A copy of one request as of its last complete step.
struct RequestCopy {
  int64_t number = 0;
  std::vector<int32_t> ids;
  std::vector<State> states;
  std::vector<float> confidence;
  std::map<int64_t, std::vector<TokenShare>> kept; // Slot::kept
  Finish finish = Finish::running;
  std::shared_ptr<const Error> failure; // null: the request did not fail
  // Counters as in Request. nfe is counted by the policy (Session::nfe).
  int64_t open = 0, steps = 0, evaluations = 0, nfe = 0, prefills = 0, commits = 0, launches = 0,
          round_trips = 0, decided = 0;
  // Predictions that wait for a commit of the host; null: there are none.
  std::shared_ptr<const std::vector<Prediction>> predictions;
  std::shared_ptr<const TraceLog> trace; // null: the decoder keeps no trace
  size_t trace_lines = 0;                // lines of the trace up to this step

  int64_t length() const { return static_cast<int64_t>(ids.size()); }
  bool active() const { return finish == Finish::running; }
};
using RequestCopyRef = std::shared_ptr<const RequestCopy>;

// Totals of the decoder.
struct DecoderTotals {
  int64_t launches = 0, round_trips = 0;
  int64_t cache_bytes = 0, cache_rows = 0, cache_capacity = 0, reused = 0;
  int64_t computed = 0; // positions of forward passes, padding included
};

// The copies and totals that readers see. One thread writes, any thread may read. The lock is held
// only while references are copied.
class Published {
public:
  using Slots = std::map<int64_t, RequestCopyRef>;
  struct All {
    Slots slots;
    DecoderTotals totals;
  };

  // Sets the slots of `changed` and the totals. The other slots stay, or are removed if
  // drop_others.
  void put(Slots changed, const DecoderTotals& totals, bool drop_others = false);
  void remove(int64_t number, const DecoderTotals& totals);

  RequestCopyRef request(int64_t number) const; // fails with not_found
  All all() const;                              // all slots and totals of one moment

private:
  mutable std::mutex mutex_;
  All now_;
};

} // namespace dllm::decode
