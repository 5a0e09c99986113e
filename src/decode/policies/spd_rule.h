#pragma once
// The two formulas of soft parallel decoding (DMax; github.com/czg1225/DMax): which masks of a block are
// decided, and what a decided position feeds to the next step.

#include "decode/ask.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::decode {

// Left to right: the masks before the first one whose probability is below the threshold; when that
// is none, the leftmost mask. open, probability: one entry per position, ascending. Decided
// positions in between do not end the scan.
std::vector<uint8_t> spd_decode_set(std::span<const uint8_t> open,
                                    std::span<const float> probability, float threshold);

// Tokens and weights of a decided position, `width` of them; weights that sum to less than 1 leave
// the rest to the mask's embedding.
struct SpdSoft {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

// The `width` likeliest tokens of the prediction with their probabilities.
SpdSoft spd_likeliest(const Prediction& prediction, int64_t width);

} // namespace dllm::decode
