#pragma once
// What the files next to a tokenizer.json say about special tokens: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json, generation_config.json and config.json. A token or its role may stand in any of them.

#include "base/files.h"
#include "text/tokenizer/parts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dllm::text {

// Spellings of an end token in use, which count where no file names one.
inline constexpr const char* kUsualEnds[] = {"<|eos|>",         "</s>",  "<|endoftext|>",
                                             "<|end_of_text|>", "<eos>", "[SEP]"};

struct SpecialFiles {
  std::vector<AddedToken> added; // of added_tokens_decoder and added_tokens.json, by id
  // (key, text) of tokens with a role, and of others that are special wherever they stand. Of two with one key the
  // last counts.
  std::vector<std::pair<std::string, std::string>> named;
  SpecialIds ids;            // of generation_config.json, else of config.json
  std::vector<int64_t> ends; // all end tokens that these two files number, each once
};

// Files that the source does not have say nothing. Fails with data_loss for one that does not hold a JSON object.
SpecialFiles read_special_files(const Source& source);

// Adds what the files say to the parts that tokenizer.json gave; tokenizer.json has priority. A named text that is not
// a token is reported in the log. Fails with data_loss where two files give a number to different tokens.
void add_special_files(const SpecialFiles& files, const std::string& where, TokenizerParts& parts);

} // namespace dllm::text
