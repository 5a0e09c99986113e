#pragma once
// A Regex is a compiled regular expression, of the files of tokenizers and of patterns of names.

#include "text/json_reader.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace dllm::text {

// A compiled regular expression over UTF-8 (PCRE2 with Unicode properties, and JIT where it is
// available). Work and memory of a match are limited, because patterns come from tokenizer files.
class Regex {
public:
  // Compiles a pattern. Fails with invalid_argument naming the pattern and the offset. `what`
  // names the part of the file in errors.
  Regex(std::string_view pattern, std::string_view what);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& pattern() const;

  // One search through one text. Many searches of one Regex may run at once.
  class Search {
  public:
    // REQUIRES: valid UTF-8; regex and text outlive the search.
    Search(const Regex& regex, std::string_view text);
    ~Search();
    // Finds the next match that does not overlap the match before it; returns false when there is
    // no further match. Fails with resource_exhausted when a match needs too much work.
    bool next(size_t& begin, size_t& end);

  private:
    struct State;
    std::unique_ptr<State> state_;
  };

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns a pattern that matches the text literally.
std::string escape_regex(std::string_view text);

// Reads the pattern of Split or Replace: {"String": "x"}, {"Regex": "x+"}, or a plain string.
Regex read_pattern(const TreeJson& object, const char* key, const std::string& where);

} // namespace dllm::text
