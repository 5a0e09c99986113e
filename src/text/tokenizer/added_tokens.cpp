#include "text/tokenizer/added_tokens.h"

#include "base/error.h"
#include "base/task.h"
#include "text/unicode.h"

#include <algorithm>

namespace dllm::text {

void AddedTokens::add(AddedToken token, const std::string& normalized_content) {
  constexpr size_t kMostBytes = size_t{1} << 16, kBytesPerByte = 128; // of the tries and texts
  const std::string& wanted = token.normalized ? normalized_content : token.content;
  if (const size_t size = std::max(token.content.size(), wanted.size()); size > kMostBytes) {
    fail(Code::invalid_argument, "an added token has {} bytes, at most {} are possible", size,
         kMostBytes);
  }
  charges_.push_back(std::make_shared<MeterCharge>(
      static_cast<int64_t>(kBytesPerByte * (token.content.size() + wanted.size()))));
  if (!wanted.empty()) {
    tries_[token.normalized][1].add(wanted, token.id);
    if (!token.special) tries_[token.normalized][0].add(wanted, token.id);
  }
  if (!token.content.empty() && (token.special || !token.normalized)) {
    contents_.add(token.content, token.id);
  }
  by_content_[token.content] = token.id;
  tokens_[token.id] = std::move(token);
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : find(found->second);
}

namespace {

size_t skip_space_back(std::string_view text, size_t end, size_t floor) {
  while (end > floor) {
    const Char c = char_before(text, end);
    if (!c.valid || !is_whitespace(c.code)) break;
    end -= static_cast<size_t>(c.size);
  }
  return end;
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (!c.valid || !is_whitespace(c.code)) break;
    at += static_cast<size_t>(c.size);
  }
  return at;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    const Char before = char_before(text, begin);
    if (before.valid && is_word(before.code)) return false;
  }
  if (end < text.size()) {
    const Char after = char_at(text, end);
    if (after.valid && is_word(after.code)) return false;
  }
  return true;
}

} // namespace

template <class Accept>
std::vector<TextPart> AddedTokens::cut(std::string_view text, const Trie& trie, const Task* task,
                                       Accept&& accept) const {
  constexpr size_t kPiece = size_t{1} << 16; // bytes between two checks of the task
  std::vector<TextPart> parts;
  size_t done = 0, checked = 0;
  for (size_t at = 0; at < text.size() && !trie.empty();) {
    if (at >= checked) {
      check_task(task);
      checked = at + kPiece;
    }
    size_t size = 0;
    int32_t id = -1;
    trie.prefixes(text, at, [&](size_t length, int32_t found) {
      if (!accept(found, at, at + length)) return;
      size = length;
      id = found;
    });
    if (id < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_.at(id);
    size_t begin = at, end = at + size;
    at = end;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(skip_space_back(text, begin, done), done);
    if (token.rstrip) end = skip_space(text, end);
    if (begin >= end) continue; // the token before took all of it
    if (begin > done) parts.push_back({done, begin, -1});
    parts.push_back({begin, end, id});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), -1});
  return parts;
}

std::vector<TextPart> AddedTokens::split(std::string_view text, bool normalized, bool special,
                                         const Task* task) const {
  return cut(text, tries_[normalized][special], task, [](int32_t, size_t, size_t) { return true; });
}

std::vector<TextPart> AddedTokens::split(std::string_view text, const Trusted& trusted,
                                         const Task* task) const {
  return cut(text, contents_, task, [&](int32_t id, size_t begin, size_t end) {
    return !tokens_.at(id).special || trusted(begin, end);
  });
}

} // namespace dllm::text
