#pragma once
// Special files are stored next to a tokenizer.json and may name special tokens and their roles:
// tokenizer_config.json, special_tokens_map.json, added_tokens.json, generation_config.json and
// config.json.

#include "base/files.h"
#include "text/tokenizer/parts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dllm::text {

// Usual spellings of an end token, which are used when no file names an end token.
inline constexpr const char* kUsualEnds[] = {"<|eos|>",         "</s>",  "<|endoftext|>",
                                             "<|end_of_text|>", "<eos>", "[SEP]"};

struct SpecialFiles {
  std::vector<AddedToken> added; // from added_tokens_decoder and added_tokens.json, by id
  // (key, text) of tokens with a role and of other special tokens. The last entry of a key counts.
  std::vector<std::pair<std::string, std::string>> named;
  SpecialIds ids;            // from generation_config.json, else from config.json
  std::vector<int64_t> ends; // ids of all end tokens in these two files, each once
};

// Reads the files; a file may be absent. Fails with data_loss for a file that does not hold a JSON
// object.
SpecialFiles read_special_files(const Source& source);

// Adds the tokens and roles of the files to the parts of tokenizer.json, which have priority. Logs
// each named text that is not a token. Fails with data_loss when two files assign one id to
// different tokens.
void add_special_files(const SpecialFiles& files, const std::string& where, TokenizerParts& parts);

} // namespace dllm::text
