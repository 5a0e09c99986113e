#pragma once
// Lookups and edits in the files of a tokenizer without making it: one walk over the text, whatever the type of the
// tokenizer's model. For models, which carry these files along.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dllm::text {

constexpr const char* kMaskToken = "<|mask|>"; // what add_mask_token() adds

// The id of the first of `names` that is a token of a tokenizer.json; nothing when none is. Fails with data_loss for
// what is not JSON; parts that are of no known form hold no tokens.
std::optional<int64_t> find_token(std::string_view tokenizer_json, std::span<const std::string> names);
// The largest id + 1.
int64_t count_tokens(std::string_view tokenizer_json);
// The same file with one more special token.
std::string add_mask_token(std::string_view tokenizer_json, int64_t id);
// The same tokenizer_config.json with that token as its mask token.
std::string name_mask_token(std::string_view config_json, int64_t id);

} // namespace dllm::text
