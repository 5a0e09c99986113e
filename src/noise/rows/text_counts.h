#pragma once
// Counts the trained tokens of each text of a row. loss_norm = sequence weighs each text alike: a
// packed row holds several texts, and each counts once, as on a row of its own.

#include "noise/loss/token_ce.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace dllm::noise {

struct TextCounts {
  // (seq): trained tokens of the text of each token, at least 1.
  std::vector<int64_t> tokens;
  int64_t texts = 0;   // texts of the row; a row of padding alone is one text
  int64_t trained = 0; // texts that have a trained token
};

// is_trained: returns whether the token at an index of the row (0 to seq - 1) is trained.
TextCounts text_counts(const TokenRows& rows, int64_t row,
                       const std::function<bool(int64_t)>& is_trained);

} // namespace dllm::noise
