#include "text/automaton/byte_automaton.h"

#include "base/error.h"
#include "text/automaton/grammar_automaton.h"
#include "text/automaton/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace dllm::text {
namespace {

using States = std::vector<int32_t>; // ascending

// Most states of the pattern that are visited while sets of them are made, about a second of work.
// Repetitions of repetitions have large sets, and would take hours before there are kMostStates.
constexpr int64_t kMostVisits = int64_t{1} << 25;

[[noreturn]] void refuse_size(const PatternAutomaton& pattern, const std::string& what) {
  fail_with_hint("repeat shorter parts, or fewer times", Code::invalid_argument,
                 "the {} needs more than {}", pattern.name, what);
}

// Makes closed sets of states: with all states that are reached without a byte.
class Closure {
public:
  Closure(const PatternAutomaton& pattern, const Task* task)
      : pattern_(pattern), task_(task), seen_(pattern.states.size()) {}

  // Takes states without repetition.
  States operator()(States states) {
    check_task(task_);
    for (const int32_t state : states) seen_[static_cast<size_t>(state)] = 1;
    for (size_t i = 0; i < states.size(); ++i) {
      const PatternState& state = pattern_.states[static_cast<size_t>(states[i])];
      for (const int32_t to : state.empty) {
        if (std::exchange(seen_[static_cast<size_t>(to)], uint8_t{1}) == 0) states.push_back(to);
      }
    }
    for (const int32_t state : states) seen_[static_cast<size_t>(state)] = 0;
    visits_ += std::ssize(states);
    if (visits_ > kMostVisits) refuse_size(pattern_, "a second of work");
    std::ranges::sort(states);
    return states;
  }

private:
  const PatternAutomaton& pattern_;
  const Task* task_;
  std::vector<uint8_t> seen_;
  int64_t visits_ = 0;
};

// Leaves out states without edges, except the end: two sets that differ in them alone are equal.
States essential(const PatternAutomaton& pattern, States states) {
  std::erase_if(states, [&](int32_t state) {
    return state != pattern.end && pattern.states[static_cast<size_t>(state)].edges.empty();
  });
  return states;
}

// Numbers the classes of bytes that every edge has in common.
int32_t number_classes(const PatternAutomaton& pattern, std::array<uint16_t, 256>& class_of) {
  std::set<int32_t> borders; // first bytes of classes
  for (const PatternState& state : pattern.states) {
    for (const PatternEdge& edge : state.edges) borders.insert({edge.first, edge.last + 1});
  }
  int32_t number = 0;
  for (int32_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && borders.contains(byte)) ++number;
    class_of[static_cast<size_t>(byte)] = static_cast<uint16_t>(number);
  }
  return number + 1;
}

struct Table {
  int32_t classes = 0;
  std::vector<int32_t> next; // (state, class)
  std::vector<uint8_t> accepts;

  int32_t size() const { return static_cast<int32_t>(accepts.size()); }
  int32_t& at(int32_t state, int32_t of) {
    return next[static_cast<size_t>(state) * static_cast<size_t>(classes) +
                static_cast<size_t>(of)];
  }
};

Table subset_table(const PatternAutomaton& pattern, const std::array<uint16_t, 256>& class_of,
                   int32_t classes, const Task* task) {
  std::vector<uint8_t> first_of(static_cast<size_t>(classes)); // a byte of each class
  for (int32_t byte = 255; byte >= 0; --byte)
    first_of[class_of[static_cast<size_t>(byte)]] = static_cast<uint8_t>(byte);
  Table table{.classes = classes};
  std::map<States, int32_t> numbers;
  std::vector<States> open;
  Closure closed(pattern, task);
  const auto number_of = [&](States reached) {
    States states = essential(pattern, closed(std::move(reached)));
    const auto [found, is_new] = numbers.emplace(states, table.size());
    if (is_new) {
      if (numbers.size() > ByteAutomaton::kMostStates)
        refuse_size(pattern, fmt::format("{} states", ByteAutomaton::kMostStates));
      table.accepts.push_back(std::ranges::binary_search(states, pattern.end) ? 1 : 0);
      table.next.resize(table.next.size() + static_cast<size_t>(classes), ByteAutomaton::kDead);
      open.push_back(std::move(states));
    }
    return found->second;
  };
  number_of({pattern.begin});
  for (size_t i = 0; i < open.size(); ++i) {
    for (int32_t of = 0; of < classes; ++of) {
      const uint8_t byte = first_of[static_cast<size_t>(of)];
      States reached;
      for (const int32_t state : open[i]) {
        for (const PatternEdge& edge : pattern.states[static_cast<size_t>(state)].edges) {
          if (edge.first <= byte && byte <= edge.last) reached.push_back(edge.to);
        }
      }
      if (reached.empty()) continue;
      std::ranges::sort(reached);
      reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
      table.at(static_cast<int32_t>(i), of) = number_of(std::move(reached));
    }
  }
  return table;
}

// Makes states dead from which no text is accepted.
void drop_dead(Table& table) {
  std::vector<States> from(static_cast<size_t>(table.size()));
  for (int32_t state = 0; state < table.size(); ++state) {
    for (int32_t of = 0; of < table.classes; ++of) {
      const int32_t to = table.at(state, of);
      if (to >= 0) from[static_cast<size_t>(to)].push_back(state);
    }
  }
  std::vector<uint8_t> lives = table.accepts;
  States open;
  for (int32_t state = 0; state < table.size(); ++state) {
    if (lives[static_cast<size_t>(state)] != 0) open.push_back(state);
  }
  for (size_t i = 0; i < open.size(); ++i) {
    for (const int32_t state : from[static_cast<size_t>(open[i])]) {
      if (std::exchange(lives[static_cast<size_t>(state)], uint8_t{1}) == 0) open.push_back(state);
    }
  }
  for (int32_t& to : table.next) {
    if (to >= 0 && lives[static_cast<size_t>(to)] == 0) to = ByteAutomaton::kDead;
  }
}

// Joins states that accept the same texts (Moore): states of one group stay together as long as
// each class of bytes leads them to one group. Groups are numbered from the first state on.
Table joined(Table& table, const Task* task) {
  std::vector<int32_t> group(table.accepts.begin(), table.accepts.end());
  const auto group_of = [&](int32_t state) {
    return state < 0 ? ByteAutomaton::kDead : group[static_cast<size_t>(state)];
  };
  for (size_t count = 0;;) {
    check_task(task);
    std::map<std::vector<int32_t>, int32_t> numbers;
    std::vector<int32_t> next(group.size());
    for (int32_t state = 0; state < table.size(); ++state) {
      std::vector<int32_t> key = {group_of(state)};
      for (int32_t of = 0; of < table.classes; ++of) key.push_back(group_of(table.at(state, of)));
      const auto number = static_cast<int32_t>(numbers.size());
      next[static_cast<size_t>(state)] = numbers.emplace(std::move(key), number).first->second;
    }
    group = std::move(next);
    if (std::exchange(count, numbers.size()) == numbers.size()) break;
  }
  const int32_t size = *std::ranges::max_element(group) + 1;
  Table made{.classes = table.classes};
  made.accepts.resize(static_cast<size_t>(size));
  made.next.resize(static_cast<size_t>(size) * static_cast<size_t>(table.classes));
  for (int32_t state = 0; state < table.size(); ++state) {
    made.accepts[static_cast<size_t>(group_of(state))] = table.accepts[static_cast<size_t>(state)];
    for (int32_t of = 0; of < table.classes; ++of)
      made.at(group_of(state), of) = group_of(table.at(state, of));
  }
  return made;
}

} // namespace

ByteAutomaton::ByteAutomaton(std::string_view pattern, const Task* task, Notation notation) {
  const bool is_grammar = notation == Notation::grammar;
  const PatternAutomaton read = is_grammar ? grammar_automaton(pattern) : read_automaton(pattern);
  classes_ = number_classes(read, class_of_);
  Table table = subset_table(read, class_of_, classes_, task);
  drop_dead(table);
  table = joined(table, task);
  table_ = std::move(table.next);
  accepts_ = std::move(table.accepts);
  const bool is_dead = std::ranges::all_of(table_, [](int32_t to) { return to < 0; });
  if (is_dead && !accepts(begin()))
    fail(Code::invalid_argument, "{} \"{}\" matches no text", read.name, pattern.substr(0, 80));
}

int32_t ByteAutomaton::read(int32_t state, std::string_view bytes) const {
  for (const char byte : bytes) {
    state = next(state, static_cast<uint8_t>(byte));
    if (state == kDead) return kDead;
  }
  return state;
}

bool ByteAutomaton::matches(std::string_view text) const {
  const int32_t state = read(begin(), text);
  return state != kDead && accepts(state);
}

std::string escaped_pattern(std::string_view text) {
  constexpr std::string_view kSigns = "\\^$.|?*+()[]{}";
  std::string pattern;
  for (const char c : text) {
    if (kSigns.find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

} // namespace dllm::text
