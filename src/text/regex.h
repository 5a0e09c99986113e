#pragma once
// A compiled regular expression over UTF-8 (PCRE2 with Unicode properties, JIT where the machine
// has it). Patterns come from tokenizer files, so work and memory of a match are bounded.

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace dllm::text {

class Regex {
public:
  // Fails with invalid_argument naming the pattern and the offset. `what` names the part of the
  // file it came from.
  Regex(std::string_view pattern, std::string_view what);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& pattern() const;

  // One search through one text. Many may run at once on one Regex.
  class Search {
  public:
    // REQUIRES: valid UTF-8; regex and text outlive the search.
    Search(const Regex& regex, std::string_view text);
    ~Search();
    // The next match that does not overlap the former; false at the end. Fails with
    // resource_exhausted when the pattern needs more work than a tokenizer may ask for.
    bool next(size_t& begin, size_t& end);

  private:
    struct State;
    std::unique_ptr<State> state_;
  };

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same text as a pattern that matches it literally.
std::string escape_regex(std::string_view text);

} // namespace dllm::text
