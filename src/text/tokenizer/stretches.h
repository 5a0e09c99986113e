#pragma once
// Cuts a text at the matches of a pattern, with a behavior of tokenizer.json for each match.

#include "base/task.h"
#include "text/tokenizer/regex.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::text {

// Bytes [begin, end) of a text, which are a match of a pattern or the text between two matches.
struct Stretch {
  size_t begin;
  size_t end;
  bool match;
};

// How a delimiter is treated when a text is cut (names as in tokenizer.json).
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Behavior read_behavior(const TreeJson& object, const std::string& where, Behavior fallback);

// Lists the matches and the text between them in order. The stretches cover the whole text, and
// none is empty. Checks the task at every match.
void find_stretches(const Regex& regex, std::string_view text, std::vector<Stretch>& out,
                    const Task* task = nullptr);
// Lists the pieces [begin, end) that `behavior` makes of the stretches; no piece is empty.
void cut(const std::vector<Stretch>& stretches, Behavior behavior,
         std::vector<std::pair<size_t, size_t>>& out);

} // namespace dllm::text
