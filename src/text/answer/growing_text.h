#pragma once
// A growing text is the text of ids that more ids will follow.

#include "text/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>

namespace dllm::text {

struct GrowingText {
  std::string text; // as Tokenizer::decode(), with U+FFFD for half a character at the end
  size_t shown = 0; // bytes of whole characters
  size_t sure = 0;  // bytes that stay when more ids follow
};

// Skips ids outside of the vocabulary.
GrowingText read_growing(const Tokenizer& tokenizer, std::span<const int32_t> ids);

} // namespace dllm::text
