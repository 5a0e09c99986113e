#pragma once
// The parts of a regular expression, as a tree. Private to src/text/automaton.

#include "text/automaton/code_points.h"
#include "text/automaton/remainders.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace dllm::text {

// A part of a pattern. repeat: its only child, `least` to `most` times; most -1: any number. both:
// the texts that match both of its children. except: those that match the first child and not the
// second one. list: the first child is the separator between the others, of which some may be left
// out or come several times (repeat). multiple: the digits of the multiples of a divisor.
struct PatternNode {
  enum class Kind {
    set,
    sequence,
    choice,
    repeat,
    both,
    except,
    list,
    multiple
  } kind = Kind::sequence;
  CodePoints set = {};
  std::vector<std::unique_ptr<PatternNode>> children = {};
  int32_t least = 0, most = -1;
  std::shared_ptr<const Remainders> remainders = {}; // of a multiple
};
using NodeRef = std::unique_ptr<PatternNode>;

// How a pattern is applied to a text.
enum class PatternUse {
  whole, // the whole text matches
  // A part of the text matches, as under JSON Schema. Programs differ in what \S, \D, \W and a dot
  // match. Here they match what all of these programs match: \S, \D and \W are of ASCII.
  searched
};

struct PatternTree {
  NodeRef root;
  bool from_start = false, to_end = false; // the pattern begins with ^, ends with $
};

// Fails with invalid_argument naming the place of the fault, also for a pattern that is too long.
PatternTree read_tree(std::string_view pattern, PatternUse use);

} // namespace dllm::text
