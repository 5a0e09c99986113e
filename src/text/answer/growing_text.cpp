#include "text/answer/growing_text.h"

#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <algorithm>
#include <string_view>

namespace dllm::text {
namespace {

constexpr std::string_view kBroken = "\xEF\xBF\xBD"; // U+FFFD

std::vector<int32_t> known_ids(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<int32_t> known;
  std::ranges::copy_if(ids, std::back_inserter(known),
                       [&](int32_t id) { return id >= 0 && id < tokenizer.size(); });
  return known;
}

// Returns the number of ids before the byte tokens at the end (<0xE2>). Neighbouring byte tokens
// are one text, and a later byte can break the characters that they have so far.
size_t before_byte_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  size_t before = ids.size();
  for (size_t i = ids.size(); i > 0; --i) {
    const int32_t id = ids[i - 1];
    const std::string_view token = tokenizer.token(id);
    const bool is_skipped = tokenizer.decode_options().skip_special && tokenizer.is_special(id);
    if (byte_of_token(token) >= 0)
      before = i - 1;
    else if (!token.empty() && !is_skipped)
      break;
  }
  return before;
}

// Returns true when the text of the ids ends with the first bytes of a character.
bool ends_in_a_character(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                         std::string_view text) {
  if (!text.ends_with(kBroken)) return false;
  const bool skip_special = tokenizer.decode_options().skip_special;
  return unfinished_tail(tokenizer.decode(ids, {skip_special, /*raw=*/true})) > 0;
}

} // namespace

GrowingText read_growing(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  const std::vector<int32_t> known = known_ids(tokenizer, ids);
  GrowingText made{tokenizer.decode(known)};
  made.shown = made.sure = made.text.size();
  const bool has_half = ends_in_a_character(tokenizer, known, made.text);
  const size_t before = before_byte_tokens(tokenizer, known);
  if (before < known.size()) {
    made.sure = std::min(made.text.size(), tokenizer.decode(std::span(known).first(before)).size());
    if (has_half) made.shown = made.sure;
  } else if (has_half) {
    made.shown = made.sure = made.text.size() - kBroken.size();
  }
  return made;
}

} // namespace dllm::text
