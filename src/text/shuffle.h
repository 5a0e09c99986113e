#pragma once
// A random order that needs no table: which row comes at which place is computed (a Feistel network
// over threefry, with cycle walking), so any position of any epoch is found at once.

#include "base/random.h"

#include <cstdint>

namespace dllm::text {

// The element at `index` of a random permutation of 0..count-1. REQUIRES: 0 <= index < count.
int64_t permuted(int64_t index, int64_t count, Key key);

} // namespace dllm::text
