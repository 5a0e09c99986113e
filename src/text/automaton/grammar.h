#pragma once
// Reads a grammar in the form of llama.cpp (GBNF) as a tree. Private to src/text/automaton.
//
//     root ::= item ("," item)*      # a comment
//     item ::= "a" | [0-9]{1,3}
//
// A rule is a name, ::= and alternatives, up to the end of its line. The text is what rule root
// matches. Parts are texts in quotes, classes, a dot, names of rules and groups, each of which may
// be repeated.

#include "text/automaton/code_points.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// A part of a rule. repeat: its only child, `least` to `most` times; most -1: any number.
struct GrammarNode {
  enum class Kind { set, sequence, choice, repeat, rule } kind = Kind::sequence;
  CodePoints set = {};
  std::vector<std::unique_ptr<GrammarNode>> children = {};
  int32_t least = 0, most = -1;
  int32_t rule = -1; // in Grammar::rules
};
using GrammarRef = std::unique_ptr<GrammarNode>;

struct GrammarRule {
  std::string name;
  GrammarRef root;
};

struct Grammar {
  std::vector<GrammarRule> rules;
  int32_t root = -1; // the rule of this name
};

// Fails with invalid_argument naming the line of the fault, and the rule when a rule begins with
// itself.
Grammar read_grammar(std::string_view text);

} // namespace dllm::text
