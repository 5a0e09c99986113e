#include "token_texts.h"

#include "pictures/trace.h"  // joined_key

#include <algorithm>

namespace dllm::cli {
namespace {

constexpr const char* kBroken = "\xEF\xBF\xBD";  // U+FFFD: bytes that are no whole character

bool is_whole(const std::string& text) { return text.find(kBroken) == std::string::npos; }

}  // namespace

TokenTexts::TokenTexts(const dllm_tokenizer* tokenizer) : tokenizer_(tokenizer) {
  before_ = encode(tokenizer, "a");
  if (before_.size() > 1) before_ = {before_.back()};
  text_before_ = decode(tokenizer, before_);
  for (const char* role : {"mask", "bos", "eos", "pad"}) {
    int32_t id = -1;
    if (dllm_tokenizer_id(tokenizer, role, &id, nullptr) == DLLM_OK && decode(tokenizer, {id}).empty()) {
      known_[id] = std::string("<") + role + ">";
    }
  }
}

std::string TokenTexts::read(std::span<const int32_t> ids) const {
  std::vector<int32_t> all = before_;
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string text = decode(tokenizer_, all);
  if (text.compare(0, text_before_.size(), text_before_) == 0) return text.substr(text_before_.size());
  return decode(tokenizer_, {ids.begin(), ids.end()});
}

const std::string& TokenTexts::of(int32_t id) {
  const auto found = known_.find(id);
  if (found != known_.end()) return found->second;
  return known_[id] = id < 0 || id >= dllm_tokenizer_size(tokenizer_) ? std::string() : read({&id, 1});
}

std::vector<TokenCell> TokenTexts::cells(const Canvas& canvas) {
  std::vector<TokenCell> cells;
  for (size_t i = 0; i < canvas.ids.size(); ++i) {
    const bool open = canvas.states[i] == DLLM_MASKED;
    cells.push_back({open ? std::string() : of(canvas.ids[i]), canvas.states[i], canvas.confidence[i]});
    if (!open && cells.back().text.empty()) cells.back().text = "\u27e8" + std::to_string(canvas.ids[i]) + "\u27e9";
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].state == DLLM_MASKED || is_whole(cells[i].text)) continue;
    for (size_t count = 2; count <= kMostJoined && i + count <= cells.size(); ++count) {
      if (cells[i + count - 1].state == DLLM_MASKED) break;
      const std::string joined = read({canvas.ids.data() + i, count});
      if (!is_whole(joined)) continue;
      cells[i].text = joined_[joined_key(canvas.ids.data() + i, count)] = joined;
      for (size_t k = 1; k < count; ++k) cells[i + k].text.clear();
      i += count - 1;
      break;
    }
  }
  return cells;
}

}  // namespace dllm::cli
