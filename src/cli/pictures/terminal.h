#pragma once
// A canvas as rows of a terminal: colours by state, wide characters measured, control characters made visible.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

struct TokenCell {
  std::string text;  // "": a token whose character another cell shows
  uint8_t state;     // DLLM_MASKED .. DLLM_FIXED
  float confidence;
};

struct Rows {
  std::vector<std::string> text;  // each row ends in plain colours
  size_t first_open = 0;          // the row of the first open position
};

// Rows of at most `columns` columns; colour false: no escape sequences at all.
Rows draw_rows(const std::vector<TokenCell>& cells, int columns, bool colour);
// The part of the rows that fits a height, with the first open position visible.
std::vector<std::string> visible_rows(const Rows& rows, size_t height);

// "▁▃▆█": one character per value from 0 to 1.
std::string bars(const std::vector<float>& values);
// Line breaks as ⏎, other control characters as their pictures (U+2400), bad UTF-8 as U+FFFD.
std::string visible_text(std::string_view text);
// Columns a text takes.
int width_of(std::string_view text);
// The text cut to so many columns, never inside a character.
std::string cut_to(std::string_view text, int columns);

// Mean probability of the tokens that are not given and not open; 0 without any.
float mean_confidence(const std::vector<TokenCell>& cells);

}  // namespace dllm::cli
