#include "answer.h"

#include <algorithm>
#include <map>

namespace dllm::cli {

std::string text_with_holes(const dllm_tokenizer* tokenizer, const Canvas& canvas) {
  std::string text;
  const auto is_open = [&](size_t i) { return canvas.states[i] == DLLM_MASKED; };
  for (size_t begin = 0; begin < canvas.ids.size();) {
    size_t end = begin;
    while (end < canvas.ids.size() && is_open(end) == is_open(begin)) ++end;
    const auto at = [&](size_t i) { return canvas.ids.begin() + static_cast<std::ptrdiff_t>(i); };
    text += is_open(begin) ? "<mask:" + std::to_string(end - begin) + ">" : decode(tokenizer, {at(begin), at(end)});
    begin = end;
  }
  return text;
}

Repeats most_repeated(const Canvas& canvas, int32_t end_token) {
  std::map<int32_t, int64_t> counts;
  Repeats repeats;
  for (size_t i = 0; i < canvas.ids.size(); ++i) {
    if (canvas.states[i] != DLLM_FINAL) continue;
    if (canvas.ids[i] == end_token) break;
    ++repeats.tokens;
    repeats.same = std::max(repeats.same, ++counts[canvas.ids[i]]);
  }
  return repeats;
}

}  // namespace dllm::cli
