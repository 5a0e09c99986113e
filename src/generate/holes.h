#pragma once
// A text with holes spells open positions as <mask:N>, or as <mask> for one.

#include "text/answer/token_texts.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::generate {

struct Hole {
  size_t begin, end; // bytes of the text
  int64_t length;    // open positions
};

// Returns the holes of a text. Fails with invalid_argument for a text like a hole that is not one.
std::vector<Hole> find_holes(std::string_view text);
// Returns the text of a canvas, with consecutive masked positions as one hole. The ids that begin
// every text are left out.
std::string text_with_holes(const text::Tokenizer& tokenizer, std::span<const int32_t> ids,
                            std::span<const text::PositionState> states);

} // namespace dllm::generate
