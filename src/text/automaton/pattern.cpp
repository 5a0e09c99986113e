#include "text/automaton/pattern.h"

#include "base/error.h"
#include "text/automaton/pattern_tree.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dllm::text {
namespace {

constexpr size_t kMostStates = size_t{1} << 18; // of an automaton

// Makes the states of a node tree. Every node gets a path from one state to another.
class PatternWriter {
public:
  PatternAutomaton write(const PatternNode& node) {
    const int32_t begin = add_state();
    const int32_t end = add(node, begin);
    made_.begin = begin;
    made_.end = end;
    return std::move(made_);
  }

private:
  int32_t add_state() {
    if (made_.states.size() == kMostStates) {
      fail_with_hint("repeat shorter parts, or fewer times", Code::invalid_argument,
                     "the pattern needs more than {} states", kMostStates);
    }
    made_.states.emplace_back();
    return static_cast<int32_t>(made_.states.size() - 1);
  }
  PatternState& state(int32_t number) { return made_.states[static_cast<size_t>(number)]; }
  void jump(int32_t from, int32_t to) { state(from).empty.push_back(to); }

  // Returns the state after the node, which begins at `from`.
  int32_t add(const PatternNode& node, int32_t from) {
    switch (node.kind) {
    case PatternNode::Kind::set: return add_set(node.set, from);
    case PatternNode::Kind::choice: {
      const int32_t end = add_state();
      for (const NodeRef& child : node.children) jump(add(*child, from), end);
      return end;
    }
    case PatternNode::Kind::repeat: return add_repeat(node, from);
    case PatternNode::Kind::both: return add_both(node, from);
    case PatternNode::Kind::multiple: return add_multiple(*node.remainders, from);
    case PatternNode::Kind::sequence: break;
    }
    for (const NodeRef& child : node.children) from = add(*child, from);
    return from;
  }

  int32_t add_set(const CodePoints& set, int32_t from) {
    const int32_t end = add_state();
    add_characters(made_, set, from, end, [&] { return add_state(); });
    return end;
  }

  int32_t add_repeat(const PatternNode& node, int32_t from) {
    const PatternNode& child = *node.children.front();
    for (int32_t i = 0; i < node.least; ++i) from = add(child, from);
    if (node.most < 0) {
      const int32_t loop = add_state();
      jump(from, loop);
      jump(add(child, loop), loop);
      return loop;
    }
    const int32_t end = add_state();
    for (int32_t i = node.least; i < node.most; ++i) {
      jump(from, end);
      const int32_t again = add_state(); // the states of one repetition are its own
      jump(from, again);
      from = add(child, again);
    }
    jump(from, end);
    return end;
  }

  // Adds the pairs of states that both children reach by the same bytes.
  int32_t add_both(const PatternNode& node, int32_t from) {
    const PatternAutomaton one = PatternWriter().write(*node.children[0]),
                           two = PatternWriter().write(*node.children[1]);
    std::map<std::pair<int32_t, int32_t>, int32_t> numbers;
    std::vector<std::pair<int32_t, int32_t>> pairs;
    const auto number_of = [&](int32_t first, int32_t second) {
      const auto [found, is_new] = numbers.emplace(std::pair(first, second), 0);
      if (is_new) {
        found->second = add_state();
        pairs.emplace_back(first, second);
      }
      return found->second;
    };
    jump(from, number_of(one.begin, two.begin));
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto [first, second] = pairs[i];
      const int32_t own = numbers.at(pairs[i]);
      const PatternState &x = one.states[static_cast<size_t>(first)],
                         &y = two.states[static_cast<size_t>(second)];
      for (const int32_t to : x.empty) jump(own, number_of(to, second));
      for (const int32_t to : y.empty) jump(own, number_of(first, to));
      for (const PatternEdge& a : x.edges) {
        for (const PatternEdge& b : y.edges) {
          const uint8_t low = std::max(a.first, b.first), high = std::min(a.last, b.last);
          if (low <= high) {
            const int32_t to = number_of(a.to, b.to);
            state(own).edges.push_back({low, high, to});
          }
        }
      }
    }
    return number_of(one.end, two.end);
  }

  // Adds the states of the remainders. The end is the state of remainder 0.
  int32_t add_multiple(const Remainders& remainders, int32_t from) {
    const auto first = static_cast<int32_t>(made_.states.size());
    for (int32_t i = 0; i < remainders.size(); ++i) add_state();
    for (int32_t i = 0; i < remainders.size(); ++i) {
      for (uint8_t digit = 0; digit < 10; ++digit) {
        const auto byte = static_cast<uint8_t>('0' + digit);
        const int32_t to = first + remainders.next(i, digit);
        state(first + i).edges.push_back({byte, byte, to});
      }
    }
    jump(from, first + remainders.zero());
    return first + remainders.zero();
  }

  PatternAutomaton made_;
};

} // namespace

void add_characters(PatternAutomaton& made, const CodePoints& set, int32_t from, int32_t to,
                    const std::function<int32_t()>& add_state) {
  for (const ByteRanges& bytes : utf8_of(set)) {
    int32_t at = from;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int32_t next = i + 1 == bytes.size() ? to : add_state();
      made.states[static_cast<size_t>(at)].edges.push_back({bytes[i].first, bytes[i].last, next});
      at = next;
    }
  }
}

PatternAutomaton read_automaton(std::string_view pattern) {
  return PatternWriter().write(*read_tree(pattern, PatternUse::whole).root);
}

} // namespace dllm::text
