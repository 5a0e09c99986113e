#include "text/tokenizer/token_model.h"

#include "base/error.h"
#include "text/json_reader.h"
#include "text/unicode.h"

#include <algorithm>

namespace dllm::text {

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

} // namespace dllm::text
