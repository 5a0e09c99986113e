#pragma once
// Requests that begin alike share the work of their beginning. One fills its cache with it, and the
// others wait for this pass and copy the state.

#include "decode/slot/slot.h"

#include <cstdint>
#include <vector>

namespace dllm::decode {

// For one round of passes.
class SharedBeginnings {
public:
  // Returns whether a slot without a pass begins as one of the planned slots does, whose pass makes
  // state that the slot could copy. The slot is kept, with that one as its leader.
  bool takes(Slot& slot, const std::vector<Slot*>& planned);
  // Returns the slots, and forgets those, whose copies would save less than a pass costs.
  std::vector<Slot*> drop_small();
  // Makes the passes of leaders end where the first of their followers differs. Returns the leaders
  // whose pass was a step. They predict nothing in this round.
  std::vector<Slot*> cut_passes();
  // Returns the slots that wait.
  std::vector<Slot*> followers() const;

private:
  struct Group {
    Slot* leader;
    std::vector<Slot*> followers;
    int64_t edge; // the smallest number of positions that the leader and a follower share
  };
  std::vector<Group> groups_;
};

} // namespace dllm::decode
