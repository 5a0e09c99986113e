// The text is one of several texts.

#include "generate/constraints/constraint_kinds.h"

#include "text/automaton/byte_automaton.h"

namespace dllm::generate {
namespace {

std::string pattern_of_choices(const std::vector<std::string>& choices) {
  std::string pattern;
  for (const std::string& choice : choices)
    pattern += (pattern.empty() ? "(?:" : "|") + text::escaped_pattern(choice);
  return pattern + ")";
}

} // namespace

ConstraintKind constraint_files::choices() {
  return {option_list("choices", {}, "The whole answer is one of these texts; empty: any text."),
          [](const Options& request) { return pattern_of_choices(request.list("choices")); }};
}

} // namespace dllm::generate
