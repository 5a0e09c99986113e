#include "text/automaton/pattern_tree.h"

#include "base/error.h"
#include "text/automaton/byte_automaton.h"
#include "text/automaton/repetition.h"
#include "text/unicode.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace dllm::text {
namespace {

constexpr int32_t kMostDepth = 200;                   // of groups in groups
constexpr int64_t kMostRemainders = int64_t{1} << 18; // of all divisors, about a second of work

const CodePoints kDigits = {{'0', '9'}};
const CodePoints kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodePoints kSpace = {{'\t', '\r'}, {' ', ' '}};
const CodePoints kLineEnd = {{'\n', '\n'}};
const CodePoints kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

NodeRef new_node(PatternNode::Kind kind) {
  auto node = std::make_unique<PatternNode>();
  node->kind = kind;
  return node;
}

NodeRef node_of(CodePoints set) {
  NodeRef node = new_node(PatternNode::Kind::set);
  node->set = std::move(set);
  return node;
}

class PatternReader {
public:
  PatternReader(std::string_view pattern, PatternUse use) : pattern_(pattern), use_(use) {
    if (pattern.size() > ByteAutomaton::kMostBytes) {
      fail(Code::invalid_argument, "the pattern has {} bytes, at most {} are read", pattern.size(),
           ByteAutomaton::kMostBytes);
    }
    if (!is_valid_utf8(pattern)) fail(Code::invalid_argument, "the pattern is not UTF-8");
  }

  PatternTree read() {
    PatternTree tree;
    tree.from_start = take("^");
    tree.root = read_choice();
    if (at_ < pattern_.size()) refuse("a ')' without a '('", "write \\) for the character itself");
    tree.to_end = to_end_;
    return tree;
  }

private:
  [[noreturn]] void refuse(std::string_view what, std::string_view hint) const {
    fail_with_hint(std::string(hint), Code::invalid_argument, "pattern \"{}\", byte {}: {}",
                   pattern_.substr(0, 80), at_, what);
  }
  bool is_at_end() const { return at_ == pattern_.size(); }
  char peek() const { return is_at_end() ? '\0' : pattern_[at_]; }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  uint32_t next_code() {
    const Char c = char_at(pattern_, at_);
    at_ += static_cast<size_t>(c.size);
    return c.code;
  }

  NodeRef read_choice() {
    if (++depth_ > kMostDepth) refuse("too many groups in groups", "make the pattern flatter");
    NodeRef choice = new_node(PatternNode::Kind::choice);
    do choice->children.push_back(read_sequence());
    while (take("|"));
    --depth_;
    return choice->children.size() == 1 ? std::move(choice->children.front()) : std::move(choice);
  }

  NodeRef read_sequence() {
    NodeRef sequence = new_node(PatternNode::Kind::sequence);
    while (!is_at_end() && peek() != '|' && peek() != ')') {
      if (peek() == '$' && at_ + 1 == pattern_.size()) {
        ++at_;
        to_end_ = true;
        break;
      }
      sequence->children.push_back(read_repeat());
    }
    return sequence;
  }

  NodeRef read_repeat() {
    NodeRef node = read_atom();
    const std::optional<Repetition> times = read_times();
    if (!times) return node;
    take("?"); // a lazy repetition has the same texts
    NodeRef repeat = new_node(PatternNode::Kind::repeat);
    repeat->children.push_back(std::move(node));
    repeat->least = times->least, repeat->most = times->most;
    const size_t before = at_;
    if (read_times()) {
      at_ = before;
      refuse("a repetition of a repetition", "write (?:a*)*");
    }
    return repeat;
  }

  // Makes refuse() a function that the readers of repetitions take.
  auto refusal() const {
    return [this](std::string_view what, std::string_view hint) { refuse(what, hint); };
  }
  std::optional<Repetition> read_times() {
    return read_repetition(pattern_, at_, false, "write \\{ for the character itself", refusal());
  }

  NodeRef read_atom() {
    const char c = peek();
    if (c == '(') return read_group();
    if (c == '[') return read_class();
    if (c == '*' || c == '+' || c == '?' || c == '{')
      refuse("nothing to repeat", std::string("write \\") + c + " for the character itself");
    if (c == '^' || c == '$')
      refuse("^ and $ are allowed at the ends alone, because the whole text has to match",
             std::string("leave it out, or write \\") + c + " for the character itself");
    if (take(".")) return node_of((is_searched() ? kLineEnds : kLineEnd).others());
    if (take("\\")) return node_of(read_escape(false));
    const uint32_t code = next_code();
    return node_of({{code, code}});
  }

  NodeRef read_group() {
    take("(");
    if (take("?")) {
      if (take("&")) return read_both();
      if (take("%")) return read_multiple();
      if (take(",")) return read_list();
      if (!take(":") && !take_name())
        refuse("look-around and flags are not supported", "write (?:...) or (...)");
    }
    NodeRef node = read_choice();
    if (!take(")")) refuse("a '(' without a ')'", "write \\( for the character itself");
    return node;
  }

  // Reads (?&(A)(B)) from A on: the texts that match A and B. (?&!(A)(B)) has those that match A
  // and not B. No other program has these forms.
  NodeRef read_both() {
    NodeRef both = new_node(take("!") ? PatternNode::Kind::except : PatternNode::Kind::both);
    for (int i = 0; i < 2; ++i) {
      if (peek() != '(') refuse("(?& needs two groups", "write (?&(?:a*)(?:.{2}))");
      both->children.push_back(read_group());
    }
    if (!take(")")) refuse("a '(' without a ')'", "write (?&(?:a*)(?:.{2}))");
    return both;
  }

  // Reads (?,(S)(A)(B)?(C)*) from S on: texts of A, B and C in this order, with a text of S between
  // two of them. No other program has this form.
  NodeRef read_list() {
    NodeRef list = new_node(PatternNode::Kind::list);
    while (peek() == '(') {
      NodeRef child = read_group();
      const bool is_separator = list->children.empty();
      const bool may_be_out = !is_separator && (peek() == '?' || peek() == '*');
      const bool may_repeat = !is_separator && (peek() == '+' || peek() == '*');
      if (may_be_out || may_repeat) {
        ++at_;
        NodeRef repeat = new_node(PatternNode::Kind::repeat);
        repeat->children.push_back(std::move(child));
        repeat->least = may_be_out ? 0 : 1, repeat->most = may_repeat ? -1 : 1;
        child = std::move(repeat);
      }
      list->children.push_back(std::move(child));
    }
    if (list->children.size() < 2 || !take(")"))
      refuse("(?, needs a separator and items", "write (?,(?:, )(?:a)(?:b)?(?:c)*)");
    return list;
  }

  // Reads (?%N) from N on: the digits of the multiples of N. No other program has this form.
  NodeRef read_multiple() {
    NodeRef multiple = new_node(PatternNode::Kind::multiple);
    const int32_t divisor = read_repeats(pattern_, at_, refusal()).value_or(0);
    if (divisor < 1 || divisor > kMostDivisor || !take(")")) {
      refuse(fmt::format("(?% needs a number from 1 to {} and a ')'", kMostDivisor),
             "write (?%7) for the multiples of 7");
    }
    remainders_ += divisor;
    if (remainders_ > kMostRemainders)
      refuse("the numbers N of all (?%N) are too many", "use fewer, or smaller ones");
    multiple->remainders = std::make_shared<const Remainders>(divisor);
    return multiple;
  }

  // Takes the name of a group, (?<name>...) or (?P<name>...).
  bool take_name() {
    const size_t before = at_;
    take("P");
    if (take("<") && peek() != '=' && peek() != '!') {
      const size_t end = pattern_.find('>', at_);
      if (end != std::string_view::npos) {
        at_ = end + 1;
        return true;
      }
    }
    at_ = before;
    return false;
  }

  uint32_t read_hex(size_t digits) {
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const bool lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
      if (!(c >= '0' && c <= '9') && !lower && !upper)
        refuse("a hexadecimal digit is missing", "write \\x41 or \\u0041");
      code = 16 * code + static_cast<uint32_t>(lower   ? c - 'a' + 10
                                               : upper ? c - 'A' + 10
                                                       : c - '0');
    }
    return code;
  }

  bool is_searched() const { return use_ == PatternUse::searched; }
  // Returns all other code points, or those of ASCII alone (PatternUse).
  CodePoints other_than(const CodePoints& set) const {
    if (!is_searched()) return set.others();
    CodePoints taken = set;
    taken.add(0x80, 0x10FFFF);
    return taken.others();
  }

  // Reads an escape after its backslash.
  CodePoints read_escape(bool in_class) {
    if (is_at_end()) refuse("a '\\' at the end", "write \\\\ for the character itself");
    const char c = peek();
    ++at_;
    const auto one = [](uint32_t code) { return CodePoints{{code, code}}; };
    switch (c) {
    case 'd': return kDigits;
    case 'D': return other_than(kDigits);
    case 'w': return kWord;
    case 'W': return other_than(kWord);
    case 's': return kSpace;
    case 'S': return other_than(kSpace);
    case 'n': return one('\n');
    case 'r': return one('\r');
    case 't': return one('\t');
    case 'f': return one('\f');
    case 'v': return one('\v');
    case 'x': return one(read_hex(2));
    case 'u': return one(read_hex(4));
    case 'b':
      if (in_class) return one('\b');
      break;
    default: break;
    }
    const bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_word) {
      --at_;
      refuse(
          std::string("the escape \\") + c + " is not supported",
          "there are \\d \\w \\s \\n \\r \\t \\f \\v \\x41 \\u0041 and characters of punctuation");
    }
    --at_;
    return one(next_code());
  }

  NodeRef read_class() {
    take("[");
    const bool inverted = take("^");
    CodePoints set;
    bool first = true, has_names = false; // of classes, as \\d
    while (first || peek() != ']') {
      if (is_at_end()) refuse("a '[' without a ']'", "write \\[ for the character itself");
      first = false;
      const std::string_view rest = pattern_.substr(at_);
      has_names = has_names || (rest.size() > 1 && rest[0] == '\\' &&
                                std::string_view("dDwWsS").find(rest[1]) != std::string_view::npos);
      const CodePoints low = read_class_item();
      const bool is_one = low.ranges().size() == 1 && low.ranges()[0].first == low.ranges()[0].last;
      const bool is_range =
          is_one && peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!is_range) {
        set.add(low);
        continue;
      }
      ++at_;
      const CodePoints high = read_class_item();
      const uint32_t from = low.ranges()[0].first;
      if (high.ranges().size() != 1 || high.ranges()[0].first != high.ranges()[0].last ||
          high.ranges()[0].first < from)
        refuse("a range of characters whose end is below its begin", "write [a-z]");
      set.add(from, high.ranges()[0].first);
    }
    take("]");
    if (!inverted) return node_of(set);
    return node_of(has_names ? other_than(set) : set.others());
  }

  CodePoints read_class_item() {
    if (take("\\")) return read_escape(true);
    const uint32_t code = next_code();
    return {{code, code}};
  }

  std::string_view pattern_;
  PatternUse use_;
  size_t at_ = 0;
  int32_t depth_ = 0;
  int64_t remainders_ = 0;
  bool to_end_ = false;
};

} // namespace

PatternTree read_tree(std::string_view pattern, PatternUse use) {
  return PatternReader(pattern, use).read();
}

} // namespace dllm::text
