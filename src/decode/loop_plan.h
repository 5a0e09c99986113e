#pragma once
// The coming steps of one request's block as a session tells them to a loop that runs without the
// host: the window they share, and numbers the host makes beforehand.

#include "decode/ask.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dllm::decode {

struct LoopAsk {
  // The window of every step; positions: all that any of them may want predicted. A pass that is
  // no step comes before the loop.
  Ask ask;
  int64_t begin = 0, end = 0; // the block
  int64_t most_steps = 1;     // a block takes no more; the same for all blocks of a request
};

// One entry for each of the coming steps; what they mean is the rule's own (loop_rule.h).
struct LoopTables {
  explicit LoopTables(int64_t steps)
      : count(static_cast<std::size_t>(steps), INT32_MAX), level(count.size(), 0.0f),
        time(count.size(), 1.0) {}

  std::vector<int32_t> count;
  std::vector<float> level;
  std::vector<double> time; // Ask::time
  int32_t carry = 0;        // what the rule remembers of earlier steps
};

} // namespace dllm::decode
