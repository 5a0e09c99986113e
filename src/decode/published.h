#pragma once
// What other threads may read of a decoder: copies of its requests, made at the end of each complete
// step.

#include "decode/ask.h"
#include "decode/slot.h"
#include "decode/trace.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dllm::decode {

struct SlotCopy {
  int64_t number = 0;
  std::vector<int32_t> ids;
  std::vector<State> states;
  std::vector<float> confidence;
  Finish finish = Finish::running;
  int64_t open = 0, steps = 0, evaluations = 0, nfe = 0, prefills = 0, commits = 0, launches = 0,
          round_trips = 0, decided = 0; // as in Slot; nfe as the policy counts it
  std::shared_ptr<const std::vector<Prediction>> predictions; // null: none wait for a commit
  std::shared_ptr<const TraceLog> trace;                      // null: none is kept
  size_t trace_lines = 0;                                     // up to this step

  int64_t length() const { return static_cast<int64_t>(ids.size()); }
  bool active() const { return finish == Finish::running; }
};
using SlotCopyRef = std::shared_ptr<const SlotCopy>;

// Of the decoder as a whole.
struct DecoderTotals {
  int64_t launches = 0, round_trips = 0;
  int64_t cache_bytes = 0, cache_rows = 0, cache_capacity = 0, reused = 0;
  int64_t computed = 0; // positions, padding included
};

// One thread writes; any may read. A lock is held while references are copied, never longer.
class Published {
public:
  using Slots = std::map<int64_t, SlotCopyRef>;
  struct All {
    Slots slots;
    DecoderTotals totals;
  };

  // These slots are as in `changed`; the others stay, or are gone.
  void put(Slots changed, const DecoderTotals& totals, bool drop_others = false);
  void remove(int64_t number, const DecoderTotals& totals);

  SlotCopyRef slot(int64_t number) const; // fails with not_found
  All all() const;                        // of one moment

private:
  mutable std::mutex mutex_;
  All now_;
};

} // namespace dllm::decode
