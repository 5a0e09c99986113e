#pragma once
// What Split and Replace search for: a literal text or a regular expression. Both become one Regex.

#include "base/task.h"
#include "text/json_reader.h"
#include "text/regex.h"

#include <string>
#include <vector>

namespace dllm::text {

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
