#include "text/tokenizer/token_model.h"

#include "base/error.h"
#include "text/json_reader.h"
#include "text/unicode.h"

#include <algorithm>

namespace dllm::text {

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

} // namespace dllm::text
