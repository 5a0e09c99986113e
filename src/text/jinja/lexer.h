#pragma once
// Cuts a template into text and tags, and tags into words. White space around tags goes here:
// trim_blocks and lstrip_blocks are on, as every chat template expects, and - and + are obeyed.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text::jinja {

enum class TokenKind {
  text,      // outside of tags
  open,      // {{
  close,     // }}
  open_tag,  // {%
  close_tag, // %}
  name,
  integer,
  real,
  string, // value: what it stands for, without quotes
  sign,   // value: "(", "//", "==" ...
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string value;
  int line = 1;
  size_t begin = 0; // offset in the source
};

// The source as the lexer sees it: "\n" line ends, without the last one.
std::string clean_source(std::string_view source);
// source: from clean_source. Fails with invalid_argument naming the line.
std::vector<Token> tokenize(std::string_view source);

} // namespace dllm::text::jinja
