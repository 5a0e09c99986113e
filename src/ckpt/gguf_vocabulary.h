#pragma once
// The tokenizer that a GGUF file carries, as plain data. `text` makes a tokenizer of it.

#include "ckpt/gguf.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dllm::ckpt {

struct GgufVocabulary {
  std::string model;               // "gpt2": byte-level BPE, "llama": SentencePiece
  std::string pre;                 // name of the pre-tokenizer ("smollm", "qwen2"); may be empty
  std::vector<std::string> tokens; // by id
  std::vector<int32_t>
      types; // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; may be empty
  std::vector<float> scores;       // may be empty
  std::vector<std::string> merges; // "left right", best first; may be empty
  std::optional<int64_t> bos, eos, eot, unknown, padding, mask;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template; // may be empty
  std::string name = "gguf"; // of the file, for errors
};

// Fails with not_found when the file has no tokens, data_loss when lists do not fit each other or
// an id is no token.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

} // namespace dllm::ckpt
