#pragma once
// Token facts are the properties of a model's tokens that decoding needs. They are read from the
// tokenizer files in one walk, without making a Tokenizer.

#include "base/files.h"

#include <cstdint>
#include <vector>

namespace dllm::text {

struct TokenFacts {
  bool known = false;        // the files have a vocabulary; false: both lists are empty
  std::vector<int32_t> ends; // ids of tokens that end an answer, ascending, as Tokenizer::ends()
  std::vector<uint8_t> used; // by id, size largest id + 1; 1: the id has a token
  bool has(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(used.size()) && used[static_cast<size_t>(id)] != 0;
  }
};

// Reads tokenizer.json, or vocab.json, and the files next to it
// (text/tokenizer/files/special_files.h). Fails with data_loss for files that are not JSON.
TokenFacts read_token_facts(const Source& source);

} // namespace dllm::text
