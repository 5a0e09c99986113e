#include "text/answer/token_texts.h"

#include <fmt/format.h>

#include <utility>

namespace dllm::text {
namespace {

constexpr size_t kMostJoined = 8; // most tokens of one character

bool is_whole(std::string_view text) {
  return text.find("\xEF\xBF\xBD") == std::string_view::npos; // U+FFFD of broken bytes
}

} // namespace

TokenTexts::TokenTexts(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), before_(tokenizer_->encode("a", EncodeOptions())) {
  if (before_.size() > 1) before_ = {before_.back()};
  text_before_ = tokenizer_->decode(before_);
  const SpecialIds& special = tokenizer_->special();
  const std::pair<const char*, int32_t> roles[] = {{"<pad>", special.pad},
                                                   {"<eos>", special.eos},
                                                   {"<bos>", special.bos},
                                                   {"<mask>", special.mask}};
  for (const auto& [name, id] : roles) {
    if (id >= 0 && tokenizer_->decode({&id, 1}).empty()) known_.emplace(id, name);
  }
}

std::string TokenTexts::read(std::span<const int32_t> ids) const {
  std::vector<int32_t> all = before_;
  all.insert(all.end(), ids.begin(), ids.end());
  std::string text = tokenizer_->decode(all);
  return text.starts_with(text_before_) ? text.substr(text_before_.size())
                                        : tokenizer_->decode(ids);
}

std::string TokenTexts::of(int32_t id) {
  const std::string without_text = fmt::format("\u27e8{}\u27e9", id);
  if (id < 0 || id >= tokenizer_->size()) return without_text;
  const auto found = known_.find(id);
  if (found != known_.end()) return found->second;
  const std::string text = read({&id, 1});
  return known_.emplace(id, text.empty() ? without_text : text).first->second;
}

// Returns the number of leading ids whose bytes are whole characters only together, and their text.
// Returns 1, and does not change the text, when no number does it.
size_t TokenTexts::join(std::span<const int32_t> ids, std::string& text) const {
  for (size_t count = 2; count <= ids.size(); ++count) {
    const int32_t last = ids[count - 1];
    if (last < 0 || last >= tokenizer_->size()) break;
    std::string joined = read(ids.first(count));
    if (!is_whole(joined)) continue;
    text = std::move(joined);
    return count;
  }
  return 1;
}

std::vector<std::string> TokenTexts::cells(std::span<const int32_t> ids,
                                           std::span<const PositionState> states) {
  std::vector<std::string> cells(ids.size());
  for (size_t i = 0; i < ids.size();) {
    size_t decided = 0; // positions from i on that one character may have
    while (decided < kMostJoined && i + decided < ids.size() &&
           states[i + decided] != PositionState::masked)
      ++decided;
    if (decided > 0) cells[i] = of(ids[i]);
    i += is_whole(cells[i]) ? 1 : join(ids.subspan(i, decided), cells[i]);
  }
  return cells;
}

} // namespace dllm::text
