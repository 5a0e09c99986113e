#include "text/automaton/grammar.h"

#include "base/error.h"
#include "text/automaton/repetition.h"
#include "text/unicode.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace dllm::text {
namespace {

constexpr size_t kMostGrammarBytes = size_t{1} << 18;
constexpr size_t kMostRules = 1000;
constexpr int32_t kMostGroupDepth = 100; // of groups in groups

GrammarRef grammar_node(GrammarNode::Kind kind) {
  auto node = std::make_unique<GrammarNode>();
  node->kind = kind;
  return node;
}

GrammarRef grammar_set(CodePoints set) {
  GrammarRef node = grammar_node(GrammarNode::Kind::set);
  node->set = std::move(set);
  return node;
}

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GrammarReader {
public:
  explicit GrammarReader(std::string_view text) : text_(text) {
    if (text.size() > kMostGrammarBytes) {
      fail(Code::invalid_argument, "the grammar has {} bytes, at most {} are read", text.size(),
           kMostGrammarBytes);
    }
    if (!is_valid_utf8(text)) fail(Code::invalid_argument, "the grammar is not UTF-8");
  }

  Grammar read() {
    for (skip(true); !is_at_end(); skip(true)) read_rule();
    for (const auto& [name, place] : named_) {
      if (grammar_.rules[static_cast<size_t>(place.first)].root != nullptr) continue;
      at_ = place.second;
      refuse(fmt::format("there is no rule {}", name), "write its rule, or put a text in quotes");
    }
    const auto root = named_.find("root");
    if (root == named_.end())
      refuse("there is no rule root", "write root ::= ... for the whole text");
    grammar_.root = root->second.first;
    return std::move(grammar_);
  }

private:
  [[noreturn]] void refuse(std::string_view what, std::string_view hint) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    fail_with_hint(std::string(hint), Code::invalid_argument, "grammar, line {}: {}", line, what);
  }
  bool is_at_end() const { return at_ == text_.size(); }
  char peek() const { return is_at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view text) {
    if (!text_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  // Skips spaces and comments, and the ends of lines if a rule goes on after them.
  void skip(bool over_lines) {
    while (!is_at_end()) {
      const char c = peek();
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r')))
        ++at_;
      else
        return;
    }
  }

  std::string read_name() {
    const size_t begin = at_;
    while (!is_at_end() && is_of_name(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Returns the number of a rule, which may be written later.
  int32_t rule_of(const std::string& name, size_t place) {
    const auto [found, is_new] =
        named_.emplace(name, std::pair(static_cast<int32_t>(grammar_.rules.size()), place));
    if (is_new) {
      if (grammar_.rules.size() == kMostRules)
        refuse(fmt::format("more than {} rules", kMostRules), "write fewer rules");
      grammar_.rules.push_back({name, nullptr});
    }
    return found->second.first;
  }

  void read_rule() {
    const size_t begin = at_;
    const std::string name = read_name();
    if (name.empty()) refuse("a rule has no name", "write name ::= ... on a line of its own");
    const auto number = static_cast<size_t>(rule_of(name, begin));
    skip(false);
    if (!take("::=")) refuse(fmt::format("rule {} has no ::=", name), "write name ::= ...");
    if (grammar_.rules[number].root != nullptr)
      refuse(fmt::format("rule {} is written twice", name), "join both by |");
    skip(true);
    GrammarRef root = read_choice(false);
    if (!is_at_end() && peek() != '\n' && peek() != '\r')
      refuse(fmt::format("\"{}\" is not a part of a rule", peek()), "put a text in quotes");
    grammar_.rules[number].root = std::move(root);
  }

  // A line that begins with | goes on with the rule before it.
  bool take_bar() {
    const size_t before = at_;
    skip(true);
    if (take("|")) return true;
    at_ = before;
    return false;
  }

  GrammarRef read_choice(bool in_group) {
    if (++depth_ > kMostGroupDepth) refuse("too many groups in groups", "write rules for parts");
    GrammarRef choice = grammar_node(GrammarNode::Kind::choice);
    do {
      skip(true);
      choice->children.push_back(read_sequence(in_group));
    } while (take_bar());
    --depth_;
    return choice->children.size() == 1 ? std::move(choice->children.front()) : std::move(choice);
  }

  GrammarRef read_sequence(bool in_group) {
    GrammarRef sequence = grammar_node(GrammarNode::Kind::sequence);
    for (skip(in_group);; skip(in_group)) {
      GrammarRef part = read_part();
      if (part == nullptr) return sequence;
      for (;;) {
        skip(in_group);
        const std::optional<Repetition> times = read_times();
        if (!times) break;
        GrammarRef repeat = grammar_node(GrammarNode::Kind::repeat);
        repeat->children.push_back(std::move(part));
        repeat->least = times->least, repeat->most = times->most;
        part = std::move(repeat);
      }
      sequence->children.push_back(std::move(part));
    }
  }

  // Returns null if no part begins here. A name before ::= is that of the next rule.
  GrammarRef read_part() {
    if (take("\"")) return read_text();
    if (take("[")) return read_class();
    if (take(".")) return grammar_set(CodePoints().others());
    if (take("(")) {
      GrammarRef group = read_choice(true);
      skip(true);
      if (!take(")")) refuse("a '(' without a ')'", "close the group");
      return group;
    }
    if (peek() == '<' || peek() == '!')
      refuse("tokens in a grammar are not supported", "write the text of the token in quotes");
    const size_t begin = at_;
    const std::string name = read_name();
    if (name.empty()) return nullptr;
    skip(false);
    if (text_.substr(at_).starts_with("::=")) {
      at_ = begin;
      return nullptr;
    }
    GrammarRef node = grammar_node(GrammarNode::Kind::rule);
    node->rule = rule_of(name, begin);
    return node;
  }

  std::optional<Repetition> read_times() {
    return read_repetition(
        text_, at_, true, "write {2,5}",
        [&](std::string_view what, std::string_view hint) { refuse(what, hint); });
  }

  GrammarRef read_text() {
    GrammarRef sequence = grammar_node(GrammarNode::Kind::sequence);
    while (!take("\"")) {
      if (is_at_end() || peek() == '\n') refuse("a text has no end", "close it by \"");
      const uint32_t code = read_code();
      sequence->children.push_back(grammar_set({{code, code}}));
    }
    return sequence;
  }

  GrammarRef read_class() {
    const bool is_inverted = take("^");
    CodePoints set;
    while (!take("]")) {
      if (is_at_end() || peek() == '\n') refuse("a class has no end", "close it by ]");
      const uint32_t low = read_code();
      const bool is_range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (is_range) ++at_;
      const uint32_t high = is_range ? read_code() : low;
      if (high < low) refuse("a range of characters whose end is below its begin", "write [a-z]");
      set.add(low, high);
    }
    return grammar_set(is_inverted ? set.others() : set);
  }

  // Reads a character, or an escape of one.
  uint32_t read_code() {
    if (!take("\\")) return next_code();
    const char c = peek();
    if (is_at_end()) refuse("a '\\' at the end", "write \\\\ for the character itself");
    ++at_;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x': return read_hex(2);
    case 'u': return read_hex(4);
    case 'U': return read_hex(8);
    default: break;
    }
    if (std::string_view("\"\\[]-^").find(c) == std::string_view::npos) {
      --at_;
      refuse(fmt::format("the escape \\{} is not known", is_of_name(c) ? c : '?'),
             R"(there are \n \r \t \" \\ \[ \] \x41 \u0041 and \U00000041)");
    }
    return static_cast<uint32_t>(c);
  }

  uint32_t next_code() {
    const Char c = char_at(text_, at_);
    at_ += static_cast<size_t>(c.size);
    return c.code;
  }

  uint32_t read_hex(int digits) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const auto lower = static_cast<char>(peek() >= 'A' && peek() <= 'F' ? peek() + 32 : peek());
      const size_t digit = kDigits.find(lower);
      if (is_at_end() || digit == std::string_view::npos)
        refuse("a hexadecimal digit is missing", R"(write \x41, \u0041 or \U00000041)");
      code = 16 * code + static_cast<uint32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      refuse(fmt::format("{:x} is not a character", code), "write a code point of Unicode");
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
  int32_t depth_ = 0;
  Grammar grammar_;
  std::map<std::string, std::pair<int32_t, size_t>> named_; // number, and first place
};

// Finds a rule that begins with itself, directly or by other rules. Such a rule has no automaton.
class LeftRecursion {
public:
  explicit LeftRecursion(const Grammar& grammar)
      : grammar_(grammar), may_be_empty_(grammar.rules.size()) {}

  void check() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < may_be_empty_.size(); ++i) {
        if (may_be_empty_[i] == 0 && is_empty(*grammar_.rules[i].root))
          changed = may_be_empty_[i] = 1;
      }
    }
    // A rule is harmless if it begins with harmless rules alone.
    std::vector<uint8_t> harmless(grammar_.rules.size());
    std::vector<std::vector<int32_t>> begins(grammar_.rules.size());
    for (size_t i = 0; i < begins.size(); ++i) add_begins(*grammar_.rules[i].root, begins[i]);
    const auto first_bad = [&](size_t rule) {
      return std::ranges::find_if(
          begins[rule], [&](int32_t other) { return harmless[static_cast<size_t>(other)] == 0; });
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < begins.size(); ++i) {
        if (harmless[i] == 0 && first_bad(i) == begins[i].end()) changed = harmless[i] = 1;
      }
    }
    auto bad = static_cast<size_t>(std::ranges::find(harmless, uint8_t{0}) - harmless.begin());
    if (bad == harmless.size()) return;
    for (size_t i = 0; i < begins.size(); ++i) bad = static_cast<size_t>(*first_bad(bad));
    fail_with_hint("write repetition: list ::= item (\",\" item)*", Code::invalid_argument,
                   "grammar: rule {} begins with itself", grammar_.rules[bad].name);
  }

private:
  bool is_empty(const GrammarNode& node) const {
    const auto empty = [&](const GrammarRef& child) { return is_empty(*child); };
    switch (node.kind) {
    case GrammarNode::Kind::set: return false;
    case GrammarNode::Kind::sequence: return std::ranges::all_of(node.children, empty);
    case GrammarNode::Kind::choice: return std::ranges::any_of(node.children, empty);
    case GrammarNode::Kind::repeat: return node.least == 0 || empty(node.children.front());
    case GrammarNode::Kind::rule: break;
    }
    return may_be_empty_[static_cast<size_t>(node.rule)] != 0;
  }

  // Adds the rules with which a text of the node may begin.
  void add_begins(const GrammarNode& node, std::vector<int32_t>& begins) const {
    if (node.kind == GrammarNode::Kind::rule) begins.push_back(node.rule);
    for (const GrammarRef& child : node.children) {
      add_begins(*child, begins);
      if (node.kind == GrammarNode::Kind::sequence && !is_empty(*child)) return;
    }
  }

  const Grammar& grammar_;
  std::vector<uint8_t> may_be_empty_;
};

} // namespace

Grammar read_grammar(std::string_view text) {
  Grammar grammar = GrammarReader(text).read();
  LeftRecursion(grammar).check();
  return grammar;
}

} // namespace dllm::text
