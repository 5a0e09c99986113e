#include "text/tokenizer/token_model.h"

#include "base/error.h"
#include "text/json_reader.h"
#include "text/unicode.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

namespace dllm::text {

namespace {
constexpr int64_t kHoles = 1 << 20; // numbers a vocabulary may leave out
}

void Vocabulary::add(std::string_view token, int64_t id, int64_t expected) {
  const int64_t limit = std::min<int64_t>(std::max<int64_t>(expected, count_) + kHoles, INT32_MAX);
  if (id < 0 || id >= limit) {
    fail(Code::data_loss, "token {} has id {}, which {} tokens cannot need",
         replace_invalid(token.substr(0, 40)), id, std::max<int64_t>(expected, count_));
  }
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) {
    tokens_.resize(at + 1);
    used_.resize(at + 1);
  }
  if (used_[at]) {
    if (tokens_[at] == token) return;
    fail(Code::data_loss, "id {} stands for {} and for {}", id,
         replace_invalid(tokens_[at].substr(0, 40)), replace_invalid(token.substr(0, 40)));
  }
  tokens_[at] = token;
  used_[at] = true;
  ++count_;
  if (2 * static_cast<size_t>(count_) > slots_.size())
    return rebuild(std::max<size_t>(64, 2 * slots_.size()));
  slots_[slot_of(token)] = static_cast<int32_t>(id);
}

int32_t Vocabulary::find(std::string_view token) const {
  return slots_.empty() ? -1 : slots_[slot_of(token)];
}

size_t Vocabulary::slot_of(std::string_view token) const {
  size_t i = std::hash<std::string_view>{}(token) & (slots_.size() - 1);
  while (slots_[i] >= 0 && tokens_[static_cast<size_t>(slots_[i])] != token)
    i = (i + 1) & (slots_.size() - 1);
  return i;
}

void Vocabulary::rebuild(size_t slots) {
  slots_.assign(slots, -1);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (used_[id]) slots_[slot_of(tokens_[id])] = static_cast<int32_t>(id);
  }
}

std::string byte_token(unsigned char byte) {
  return fmt::format("<0x{:02X}>", byte);
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = 16 * value + digit;
  }
  return value;
}

std::string vocabulary_json(const Vocabulary& vocabulary) {
  std::string out = "{";
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    if (out.size() > 1) out += ',';
    out += json_string(vocabulary.token(id));
    out += ':';
    out += std::to_string(id);
  }
  return out + "}";
}

} // namespace dllm::text
