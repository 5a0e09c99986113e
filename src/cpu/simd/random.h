#pragma once
// Draws many words of threefry 2x32 with vector instructions.

#include "base/random.h"

#include <cstdint>

namespace dllm::cpu {

// Sets dst[i] = random_bits_at(key, first + i) for i < count.
void random_words(Key key, uint64_t first, uint32_t* dst, int64_t count);

} // namespace dllm::cpu
