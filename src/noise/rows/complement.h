#pragma once
// Adds complementary masks (Fast-dLLM v2, Wu et al. 2025, arXiv 2509.26328). Every row comes twice:
// once with its mask, and once with the complement of the mask. So each update trains every token.

#include "noise/loss/token_ce.h"

namespace dllm::noise {

// Appends one complementary row per row. Trainable tokens that were masked become visible, and
// trainable tokens that were visible become masked. `prepared` has rows [noised | clean] of `rows`,
// and each masked token counts 1. The clean half of an added row has no targets.
// Every array with one entry per row is doubled. Normalizers are halved; with `counts_masked` they
// count masked tokens instead.
void add_complements(Batch& prepared, const TokenRows& rows, int32_t mask, bool counts_masked);

} // namespace dllm::noise
