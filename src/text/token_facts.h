#pragma once
// What decoding needs to know about the tokens of a model, read from its files without making the tokenizer: one walk
// over tokenizer.json.

#include "base/files.h"

#include <cstdint>
#include <vector>

namespace dllm::text {

struct TokenFacts {
  bool known = false;        // the files have a vocabulary; else the lists are empty
  std::vector<int32_t> ends; // tokens that end an answer, ascending, as Tokenizer::ends
  std::vector<uint8_t> used; // (largest id + 1): 1 where an id has a token
  bool has(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(used.size()) && used[static_cast<size_t>(id)] != 0;
  }
};

// source: tokenizer.json, or vocab.json, and the files next to it (text/tokenizer/special_files.h). Fails with data_loss
// for files that are not JSON.
TokenFacts read_token_facts(const Source& source);

} // namespace dllm::text
