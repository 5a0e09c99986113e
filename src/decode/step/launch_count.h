#pragma once
// A launch is a run of a program. A launch count has the launches of a decoder, and how often the
// host waited for their results.

#include "decode/slot/slot.h"

#include <cstdint>
#include <vector>

namespace dllm::decode {

class LaunchCount {
public:
  // Counts a launch in which `slots` took part. waited: the host waited for its results.
  void add(const std::vector<Slot*>& slots, bool waited) {
    ++launches_;
    round_trips_ += waited ? 1 : 0;
    for (Slot* slot : slots) slot->count_launch(waited);
  }
  // Adds positions that a program of many steps computed, padding included.
  void add_computed(int64_t positions) { computed_ += positions; }

  int64_t launches() const { return launches_; }
  int64_t round_trips() const { return round_trips_; }
  int64_t computed() const { return computed_; }

private:
  int64_t launches_ = 0, round_trips_ = 0, computed_ = 0;
};

} // namespace dllm::decode
