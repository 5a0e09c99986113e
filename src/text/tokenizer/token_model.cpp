// This file has the vocabulary and the models Unigram, WordPiece and WordLevel (bpe.cpp has BPE).
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
    fail(Code::data_loss, "token {} has id {}, out of range for {} tokens",
         replace_invalid(token.substr(0, 40)), id, std::max<int64_t>(expected, count_));
  }
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) {
    tokens_.resize(at + 1);
    used_.resize(at + 1);
  }
  if (used_[at]) {
    if (tokens_[at] == token) return;
    fail(Code::data_loss, "id {} belongs to {} and to {}", id,
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

namespace {
constexpr double kUnkPenalty = 10.0; // below the rarest piece, as in SentencePiece
}

Unigram::Unigram(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
                 int32_t unk, bool byte_fallback)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), unk_(unk),
      byte_fallback_(byte_fallback) {
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    if (vocabulary_->has(id) && !vocabulary_->token(id).empty())
      trie_.add(vocabulary_->token(id), id);
  }
  if (!scores_.empty())
    unk_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnkPenalty;
}

void Unigram::encode(std::string_view word, const WordOptions& options,
                     std::vector<int32_t>& out) const {
  struct Best {
    double score = 0;
    size_t begin = 0;
    int32_t id = -1; // -1: not reached
  };
  std::vector<Best> best(word.size() + 1);   // of all cuts of word[0, i)
  constexpr size_t kPiece = size_t{1} << 14; // bytes between two checks of the task
  size_t checked = kPiece;
  for (size_t at = 0; at < word.size();) {
    if (at >= checked) {
      check_task(options.task);
      checked = at + kPiece;
    }
    const auto size = static_cast<size_t>(char_at(word, at).size);
    const double here = best[at].score;
    bool covered = false; // by a piece of exactly one character
    const auto offer = [&](size_t length, int32_t id, double score) {
      Best& target = best[at + length];
      if (target.id < 0 || here + score > target.score) target = {here + score, at, id};
    };
    trie_.prefixes(word, at, [&](size_t length, int32_t id) {
      if (!options.allow_special && is_special(id)) return;
      offer(length, id, scores_[static_cast<size_t>(id)]);
      covered = covered || length == size;
    });
    if (!covered) offer(size, unk_ >= 0 ? unk_ : INT32_MAX, unk_score_);
    at += size;
  }
  const size_t before = out.size();
  const auto is_unk = [this](int32_t id) { return id == unk_ || id == INT32_MAX; };
  for (size_t end = word.size(); end > 0;) {
    size_t begin = best[end].begin;
    int32_t id = best[end].id;
    if (is_unk(id)) { // neighbouring unknown characters are one token
      while (begin > 0 && is_unk(best[begin].id)) begin = best[begin].begin;
      const std::string_view unknown = word.substr(begin, end - begin);
      id = vocabulary_->find(unknown);
      const size_t mark = out.size();
      bool spelled = byte_fallback_ && id < 0;
      for (size_t i = unknown.size(); spelled && i > 0; --i) {
        const int32_t byte =
            vocabulary_->find(byte_token(static_cast<unsigned char>(unknown[i - 1])));
        spelled = byte >= 0;
        if (spelled) out.push_back(byte);
      }
      if (spelled) {
        end = begin;
        continue;
      }
      out.resize(mark);
      if (id < 0) id = unk_;
    }
    if (id >= 0) out.push_back(id);
    end = begin;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
}

std::string Unigram::to_json() const {
  std::string out = fmt::format(R"({{"type":"Unigram","unk_id":{},"byte_fallback":{},"vocab":[)",
                                unk_ >= 0 ? std::to_string(unk_) : "null", byte_fallback_);
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    out += fmt::format("{}[{},{}]", id == 0 ? "" : ",", json_string(vocabulary_->token(id)),
                       scores_[static_cast<size_t>(id)]);
  }
  return out + "]}";
}

WordPiece::WordPiece(std::shared_ptr<const Vocabulary> vocabulary, std::string unk,
                     std::string prefix, int64_t limit)
    : vocabulary_(std::move(vocabulary)), unk_(std::move(unk)), prefix_(std::move(prefix)),
      limit_(limit), unk_id_(vocabulary_->find(unk_)) {
  if (unk_id_ < 0) fail(Code::data_loss, "unk_token {} is not in the vocabulary", unk_);
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    if (vocabulary_->has(id)) longest_ = std::max(longest_, vocabulary_->token(id).size());
  }
}

void WordPiece::encode(std::string_view word, const WordOptions&, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  const auto is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  if (std::count_if(word.begin(), word.end(), is_first_byte) > limit_) {
    out.push_back(unk_id_);
    return;
  }
  std::string piece;
  for (size_t at = 0; at < word.size();) {
    size_t end = std::min(word.size(), at + longest_);
    int32_t id = -1;
    for (; end > at; --end) {
      if (end < word.size() && !is_first_byte(word[end])) continue;
      piece.assign(at > 0 ? prefix_ : "").append(word.substr(at, end - at));
      id = vocabulary_->find(piece);
      if (id >= 0) break;
    }
    if (id < 0) {
      out.resize(before);
      out.push_back(unk_id_);
      return;
    }
    out.push_back(id);
    at = end;
  }
}

std::string WordPiece::to_json() const {
  return fmt::format(
      R"({{"type":"WordPiece","unk_token":{},"continuing_subword_prefix":{},"max_input_chars_per_word":{},"vocab":{}}})",
      json_string(unk_), json_string(prefix_), limit_, vocabulary_json(*vocabulary_));
}

WordLevel::WordLevel(std::shared_ptr<const Vocabulary> vocabulary, std::string unk)
    : vocabulary_(std::move(vocabulary)), unk_(std::move(unk)), unk_id_(vocabulary_->find(unk_)) {}

void WordLevel::encode(std::string_view word, const WordOptions& options,
                       std::vector<int32_t>& out) const {
  int32_t id = vocabulary_->find(word);
  if (id >= 0 && !options.allow_special && is_special(id)) id = -1;
  if (id < 0) id = unk_id_;
  if (id < 0) {
    fail_with_hint("add a token for unknown words and name it as unk_token",
                   Code::failed_precondition,
                   "{} is not a token, and the vocabulary has no token {} for unknown words",
                   replace_invalid(word.substr(0, 40)), unk_);
  }
  out.push_back(id);
}

std::string WordLevel::to_json() const {
  return fmt::format(R"({{"type":"WordLevel","unk_token":{},"vocab":{}}})", json_string(unk_),
                     vocabulary_json(*vocabulary_));
}

} // namespace dllm::text
