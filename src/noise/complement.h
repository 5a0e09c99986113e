#pragma once
// Complementary masks (Fast-dLLM v2, Wu et al. 2025, arXiv 2509.26328): every row comes twice, once with its mask and once
// with the tokens masked that the first one shows, so that each update trains every token.

#include "noise/token_ce.h"

namespace dllm::noise {

// `prepared`: rows [noised | clean] of `rows`, whose masked tokens count 1 each. Behind them come as many: what could be masked and was not is masked, and the clean half has no targets. Every array of one entry a row is doubled;
// normalizers are halved unless they count masked tokens. first_is_given: position 0 is never masked.
void add_complements(Batch& prepared, const TokenRows& rows, int32_t mask, bool first_is_given,
                     bool counts_masked);

} // namespace dllm::noise
