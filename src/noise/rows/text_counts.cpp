#include "noise/rows/text_counts.h"

#include <algorithm>

namespace dllm::noise {

TextCounts text_counts(const TokenRows& rows, int64_t row,
                       const std::function<bool(int64_t)>& is_trained) {
  const int64_t first = row * rows.seq;
  TextCounts made;
  made.tokens.assign(static_cast<size_t>(rows.seq), 1);
  for (int64_t begin = 0, end = 0; begin < rows.seq; begin = end) {
    int64_t count = 0;
    do count += is_trained(end++) ? 1 : 0;
    while (end < rows.seq && !rows.starts_text(first + end));
    const bool is_padding =
        !rows.segments.empty() && rows.segments[static_cast<size_t>(first + begin)] == 0;
    made.texts += is_padding ? 0 : 1;
    made.trained += count > 0 ? 1 : 0;
    std::fill(made.tokens.begin() + begin, made.tokens.begin() + end, std::max<int64_t>(count, 1));
  }
  made.texts = std::max<int64_t>(made.texts, 1);
  return made;
}

} // namespace dllm::noise
