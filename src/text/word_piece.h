#pragma once
// WordPiece as BERT uses it: the longest token from the front, then the longest of the rest, and so
// on.

#include "text/token_model.h"

namespace dllm::text {

class WordPiece final : public TokenModel {
public:
  // A word of more characters than `limit`, or one that cannot be covered, is `unk`.
  WordPiece(std::shared_ptr<const Vocabulary> vocabulary, std::string unk, std::string prefix,
            int64_t limit);

  void encode(std::string_view word, const WordOptions& options,
              std::vector<int32_t>& out) const override;
  std::string to_json() const override;

private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::string unk_;
  std::string prefix_;
  int64_t limit_;
  int32_t unk_id_;
  size_t longest_ = 0; // bytes of the longest token
};

} // namespace dllm::text
