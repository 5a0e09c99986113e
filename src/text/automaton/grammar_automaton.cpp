#include "text/automaton/grammar_automaton.h"

#include "base/error.h"
#include "text/automaton/grammar.h"

#include <map>
#include <utility>
#include <vector>

namespace dllm::text {
namespace {

constexpr size_t kMostGrammarStates = size_t{1} << 18;
constexpr int64_t kMostGrammarWork = int64_t{1} << 22; // parts that are written out
constexpr int32_t kMostCallDepth = 2000;               // of parts in parts
constexpr int32_t kNoText = -1;

// Writes each part before the state that follows it. A rule before a state is written once: so the
// last part of a rule, when it is the rule itself, leads back to the beginning of the rule.
class GrammarWriter {
public:
  explicit GrammarWriter(const Grammar& grammar) : grammar_(grammar), open_(grammar.rules.size()) {}

  PatternAutomaton write() {
    made_.name = "grammar";
    made_.end = add_state();
    made_.begin = add_rule(grammar_.root, made_.end);
    if (made_.begin == kNoText) {
      fail_with_hint("let a level end, for example by an empty alternative", Code::invalid_argument,
                     "grammar: no text has at most {} levels of a rule that contains itself",
                     kMostRuleLevels);
    }
    return std::move(made_);
  }

private:
  int32_t add_state() {
    if (made_.states.size() == kMostGrammarStates) refuse_size();
    made_.states.emplace_back();
    return static_cast<int32_t>(made_.states.size() - 1);
  }
  [[noreturn]] static void refuse_size() {
    fail_with_hint("let rules contain themselves in fewer places, or repeat fewer times",
                   Code::invalid_argument, "the grammar needs more than {} states",
                   kMostGrammarStates);
  }
  PatternState& state(int32_t number) { return made_.states[static_cast<size_t>(number)]; }

  // Returns the state before the node, which ends at `end`; kNoText: its texts are too deep.
  int32_t add(const GrammarNode& node, int32_t end) {
    if (++work_ > kMostGrammarWork) refuse_size();
    if (++depth_ > kMostCallDepth) {
      fail_with_hint("write shorter chains of rules", Code::invalid_argument,
                     "grammar: parts in parts are deeper than {}", kMostCallDepth);
    }
    const int32_t begin = add_node(node, end);
    --depth_;
    return begin;
  }

  int32_t add_node(const GrammarNode& node, int32_t end) {
    switch (node.kind) {
    case GrammarNode::Kind::set: return add_set(node.set, end);
    case GrammarNode::Kind::choice: return add_choice(node, end);
    case GrammarNode::Kind::repeat: return add_repeat(node, end);
    case GrammarNode::Kind::rule: return add_rule(node.rule, end);
    case GrammarNode::Kind::sequence: break;
    }
    for (size_t i = node.children.size(); i > 0 && end != kNoText; --i)
      end = add(*node.children[i - 1], end);
    return end;
  }

  int32_t add_set(const CodePoints& set, int32_t end) {
    const int32_t begin = add_state();
    add_characters(made_, set, begin, end, [&] { return add_state(); });
    return begin;
  }

  int32_t add_choice(const GrammarNode& node, int32_t end) {
    const int32_t begin = add_state();
    for (const GrammarRef& child : node.children) {
      const int32_t first = add(*child, end);
      if (first != kNoText) state(begin).empty.push_back(first);
    }
    return state(begin).empty.empty() ? kNoText : begin;
  }

  int32_t add_repeat(const GrammarNode& node, int32_t end) {
    const GrammarNode& child = *node.children.front();
    if (node.most < 0) {
      const int32_t loop = add_state();
      state(loop).empty.push_back(end);
      const int32_t again = add(child, loop);
      if (again != kNoText) state(loop).empty.push_back(again);
      end = loop;
    }
    const int32_t last = end; // where a text that repeats less often goes on
    for (int32_t i = node.least; i < node.most; ++i) {
      const int32_t more = add(child, end);
      if (more == kNoText) break;
      const int32_t begin = add_state();
      state(begin).empty = {more, last};
      end = begin;
    }
    for (int32_t i = 0; i < node.least && end != kNoText; ++i) end = add(child, end);
    return end;
  }

  int32_t add_rule(int32_t rule, int32_t end) {
    const auto known = written_.find({rule, end});
    if (known != written_.end()) return known->second;
    int32_t& levels = open_[static_cast<size_t>(rule)];
    if (levels == kMostRuleLevels) return kNoText;
    const int32_t begin = add_state();
    written_[{rule, end}] = begin;
    ++levels;
    const int32_t first = add(*grammar_.rules[static_cast<size_t>(rule)].root, end);
    --open_[static_cast<size_t>(rule)];
    if (first == kNoText) return written_[{rule, end}] = kNoText;
    state(begin).empty.push_back(first);
    return begin;
  }

  const Grammar& grammar_;
  PatternAutomaton made_;
  std::vector<int32_t> open_; // how often each rule is around the part that is written
  std::map<std::pair<int32_t, int32_t>, int32_t> written_; // by rule and end
  int64_t work_ = 0;
  int32_t depth_ = 0;
};

} // namespace

PatternAutomaton grammar_automaton(std::string_view grammar) {
  return GrammarWriter(read_grammar(grammar)).write();
}

} // namespace dllm::text
