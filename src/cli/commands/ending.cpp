#include "ending.h"

#include <algorithm>

namespace dllm::cli {

Ending::Ending(Context& context, const dllm_tokenizer* tokenizer, int64_t prompt)
    : tokenizer_(tokenizer), prompt_(prompt) {
  if (prompt_ < 0) return;
  if (context.has("until")) until_ = context.text("until");
  if (context.option("slot", "stop") != "[]") return;
  if (dllm_tokenizer_id(tokenizer_, "eos", &end_, nullptr) != DLLM_OK) return;
  const std::string stop = "{\"stop\": [\"" + std::to_string(end_) + "\"]}";
  call([&](dllm_error* err) {
    return dllm_options_set_json(context.options("slot"), stop.data(), static_cast<int64_t>(stop.size()), err);
  });
}

bool Ending::reached(const Canvas& canvas) const {
  if (until_.empty()) return false;
  const auto begin = canvas.states.begin() + prompt_;
  const auto open = std::find_if(begin, canvas.states.end(), [](uint8_t state) {
    return state == DLLM_MASKED || state == DLLM_PROVISIONAL;
  });
  const std::vector<int32_t> decided(canvas.ids.begin() + prompt_, canvas.ids.begin() + (open - canvas.states.begin()));
  return decode(tokenizer_, decided).find(until_) != std::string::npos;
}

std::string Ending::text(const Canvas& canvas) const {
  if (prompt_ < 0) return decode(tokenizer_, canvas.ids);
  std::vector<int32_t> ids = canvas.ids;
  const auto begin = ids.begin() + prompt_;
  if (end_ >= 0) ids.erase(std::find(begin, ids.end(), end_), ids.end());
  std::string all = decode(tokenizer_, ids);
  if (until_.empty()) return all;
  // Where the prompt's own text ends does not matter to the tokenizer's decoder: search behind it.
  ids.resize(static_cast<size_t>(prompt_));
  const size_t found = all.find(until_, std::min(all.size(), decode(tokenizer_, ids).size()));
  return all.substr(0, found);
}

}  // namespace dllm::cli
