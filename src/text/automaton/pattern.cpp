#include "text/automaton/pattern.h"

#include "base/error.h"
#include "text/automaton/pattern_tree.h"

#include <algorithm>
#include <map>
#include <set>
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
    case PatternNode::Kind::except: return add_except(node, from);
    case PatternNode::Kind::list: return add_list(node, from);
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

  // Adds the pairs of a state of the first child and of the states of the second child that the
  // same bytes lead to.
  int32_t add_except(const PatternNode& node, int32_t from) {
    const PatternAutomaton one = PatternWriter().write(*node.children[0]),
                           two = PatternWriter().write(*node.children[1]);
    using Pair = std::pair<int32_t, std::vector<int32_t>>;
    std::map<Pair, int32_t> numbers;
    std::vector<Pair> pairs;
    const auto number_of = [&](int32_t first, std::vector<int32_t> others) {
      const auto [found, is_new] = numbers.emplace(Pair(first, std::move(others)), 0);
      if (is_new) {
        found->second = add_state();
        pairs.push_back(found->first);
      }
      return found->second;
    };
    const int32_t end = add_state();
    jump(from, number_of(one.begin, closed(two, {two.begin})));
    for (size_t i = 0; i < pairs.size(); ++i) {
      const Pair own = pairs[i];
      const int32_t number = numbers.at(own);
      const PatternState& x = one.states[static_cast<size_t>(own.first)];
      if (own.first == one.end && !std::ranges::binary_search(own.second, two.end))
        jump(number, end);
      for (const int32_t to : x.empty) jump(number, number_of(to, own.second));
      for (const PatternEdge& edge : x.edges) {
        each_part(two, own.second, edge, [&](uint8_t low, uint8_t high) {
          const int32_t to = number_of(edge.to, closed(two, reached(two, own.second, low)));
          state(number).edges.push_back({low, high, to});
        });
      }
    }
    return end;
  }

  // Calls `take` with ranges of bytes of an edge, each of which leads `states` to the same states.
  template <class Take>
  static void each_part(const PatternAutomaton& automaton, const std::vector<int32_t>& states,
                        const PatternEdge& edge, const Take& take) {
    std::set<int32_t> borders = {edge.last + 1}; // first bytes after a range
    for (const int32_t at : states) {
      for (const PatternEdge& other : automaton.states[static_cast<size_t>(at)].edges) {
        for (const int32_t border : {int32_t{other.first}, other.last + 1}) {
          if (border > edge.first && border <= edge.last) borders.insert(border);
        }
      }
    }
    int32_t low = edge.first;
    for (const int32_t border : borders) {
      take(static_cast<uint8_t>(low), static_cast<uint8_t>(border - 1));
      low = border;
    }
  }

  static std::vector<int32_t> reached(const PatternAutomaton& automaton,
                                      const std::vector<int32_t>& states, uint8_t byte) {
    std::vector<int32_t> made;
    for (const int32_t at : states) {
      for (const PatternEdge& edge : automaton.states[static_cast<size_t>(at)].edges) {
        if (edge.first <= byte && byte <= edge.last) made.push_back(edge.to);
      }
    }
    return made;
  }

  // Returns the states and those that are reached without a byte, ascending.
  static std::vector<int32_t> closed(const PatternAutomaton& automaton,
                                     std::vector<int32_t> states) {
    std::set<int32_t> all(states.begin(), states.end());
    while (!states.empty()) {
      const int32_t at = states.back();
      states.pop_back();
      for (const int32_t to : automaton.states[static_cast<size_t>(at)].empty) {
        if (all.insert(to).second) states.push_back(to);
      }
    }
    return {all.begin(), all.end()};
  }

  // Adds the items of a list, each once. Each item has a state before it, at which a separator was
  // written or nothing was, and a state at which an earlier item was the last text.
  int32_t add_list(const PatternNode& node, int32_t from) {
    const int32_t end = add_state();
    bool is_empty = true;        // all items up to here may be left out
    int32_t before = from;       // this item, after a separator or at the beginning
    int32_t after = add_state(); // some item
    for (size_t i = 1; i < node.children.size(); ++i) {
      const PatternNode& item = *node.children[i];
      const bool is_repeat = item.kind == PatternNode::Kind::repeat;
      const bool may_be_out = is_repeat && item.least == 0;
      const int32_t begin = add_state(), next = add_state(), next_after = add_state();
      jump(before, begin);
      jump(add(*node.children[0], after), begin);
      const int32_t last = add(is_repeat ? *item.children.front() : item, begin);
      jump(last, next_after);
      if (is_repeat && item.most < 0) jump(add(*node.children[0], last), begin);
      if (may_be_out) {
        jump(before, next);
        jump(after, next_after);
      }
      is_empty = is_empty && may_be_out;
      before = next, after = next_after;
    }
    jump(after, end);
    if (is_empty) jump(from, end);
    return end;
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
