// This file reads the canvas of a decoder: repetition, and the text of each position.

#include "decoding.h"

#include "../../pictures/pictures.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace dllm::cli {
Repeats most_repeated(const Canvas& canvas, const std::vector<int32_t>& end_tokens) {
  std::map<int32_t, int64_t> counts;
  Repeats repeats;
  for (size_t i = 0; i < canvas.ids.size(); ++i) {
    if (canvas.states[i] != DLLM_FINAL) continue;
    if (std::ranges::find(end_tokens, canvas.ids[i]) != end_tokens.end()) break;
    ++repeats.tokens;
    repeats.same = std::max(repeats.same, ++counts[canvas.ids[i]]);
  }
  return repeats;
}

Answer endless_answer(const dllm_tokenizer* tokenizer) {
  const dllm::api::Options options{"answer", {{"begin", -1}}};
  return Answer(make<dllm_answer>([&](dllm_answer** out, dllm_error* err) {
    return dllm_answer_new(tokenizer, options.get(), out, err);
  }));
}

std::vector<TokenCell> cells_of(Answer& answer, const Canvas& canvas) {
  answer.update(canvas.ids, canvas.states);
  std::vector<TokenCell> cells;
  for (std::string& text : answer.cells()) {
    const size_t i = cells.size();
    cells.push_back({std::move(text), canvas.states[i], canvas.confidence[i]});
  }
  return cells;
}

} // namespace dllm::cli
