#pragma once
// A compiled regular expression over UTF-8 (PCRE2 with Unicode properties, JIT where the machine
// has it). Patterns come from tokenizer files, so work and memory of a match are bounded.

#include "base/task.h"
#include "text/json_reader.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    // resource_exhausted when the pattern needs more work than the limit of a tokenizer.
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

// What Split and Replace search for: a literal text or a regular expression. Both become one Regex.

// {"String": "x"} or {"Regex": "x+"}, or a plain string.
Regex read_pattern(const TreeJson& object, const char* key, const std::string& where);

// A stretch of text; `match`: it is what the pattern looks for.
struct Stretch {
  size_t begin;
  size_t end;
  bool match;
};

// How a delimiter is treated when a text is cut (names as in tokenizer.json).
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Behavior read_behavior(const TreeJson& object, const std::string& where, Behavior fallback);

// Matches and what lies between them, in order, covering [begin, end) without empty stretches. The
// task is checked at every match.
void find_stretches(const Regex& regex, std::string_view text, std::vector<Stretch>& out,
                    const Task* task = nullptr);
// The pieces that `behavior` makes of the stretches: [begin, end) pairs, none empty.
void cut(const std::vector<Stretch>& stretches, Behavior behavior,
         std::vector<std::pair<size_t, size_t>>& out);

} // namespace dllm::text
