#pragma once
// Reads a regular expression as an automaton over the bytes of UTF-8. The automaton may have
// several ways to read a byte; ByteAutomaton makes one of them. Private to src/text/automaton.
//
// The syntax is the common part of JSON Schema and Python: classes, groups, alternatives, and
// repetition with * + ? {m,n}. The whole text has to match, so ^ and $ are at the ends only.
// Look-around, back references and word boundaries have no automaton of this kind and are refused.

#include "text/automaton/code_points.h"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace dllm::text {

struct PatternEdge {
  uint8_t first, last; // bytes
  int32_t to;
};
struct PatternState {
  std::vector<PatternEdge> edges;
  std::vector<int32_t> empty; // states that are reached without a byte
};
struct PatternAutomaton {
  std::vector<PatternState> states;
  int32_t begin = 0, end = 0;
  const char* name = "pattern"; // for errors
};

// Adds the bytes of each character of a set as a way from state `from` to state `to`. add_state
// makes a state and returns its number.
void add_characters(PatternAutomaton& made, const CodePoints& set, int32_t from, int32_t to,
                    const std::function<int32_t()>& add_state);

// Fails with invalid_argument naming the place of the fault, also for a pattern that needs too many
// states.
PatternAutomaton read_automaton(std::string_view pattern);

} // namespace dllm::text
