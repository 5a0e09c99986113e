#pragma once
// Makes an automaton of a grammar. A grammar may nest without end, and an automaton does not: a
// rule is written out inside itself up to kMostRuleLevels times, and deeper texts are left out. A
// rule whose last part is itself repeats without such a limit, as in
// list ::= item | item "," list. Private to src/text/automaton.

#include "text/automaton/pattern.h"

#include <cstdint>
#include <string_view>

namespace dllm::text {

inline constexpr int32_t kMostRuleLevels = 4;

// Fails as read_grammar, also for a grammar that needs too many states.
PatternAutomaton grammar_automaton(std::string_view grammar);

} // namespace dllm::text
