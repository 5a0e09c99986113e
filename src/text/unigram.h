#pragma once
// Unigram language model (Kudo 2018): of all ways to cut a word into pieces, the one with the
// greatest sum of log probabilities (Viterbi).

#include "text/token_model.h"
#include "text/trie.h"

namespace dllm::text {

class Unigram final : public TokenModel {
public:
  // scores: by id, natural logarithms. unk: -1 when the vocabulary has none.
  Unigram(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores, int32_t unk,
          bool byte_fallback);

  void encode(std::string_view word, const WordOptions& options,
              std::vector<int32_t>& out) const override;
  std::string to_json() const override;

private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<double> scores_;
  int32_t unk_;
  bool byte_fallback_;
  double unk_score_ = 0;
  Trie trie_;
};

} // namespace dllm::text
