#include "text/automaton/json_pattern.h"

#include "base/error.h"
#include "text/automaton/pattern_tree.h"
#include "text/unicode.h"

#include <fmt/format.h>

#include <algorithm>

namespace dllm::text {
namespace {

constexpr uint32_t kFirstPlain = 0x20; // code points before it are escapes in JSON

// Returns the pattern of the escape of a code point; "": it has none.
std::string escape_of(uint32_t code) {
  switch (code) {
  case '"': return R"(\\")";
  case '\\': return R"(\\\\)";
  case '\b': return R"(\\b)";
  case '\f': return R"(\\f)";
  case '\n': return R"(\\n)";
  case '\r': return R"(\\r)";
  case '\t': return R"(\\t)";
  default: return code < kFirstPlain ? fmt::format(R"(\\u{:04x})", code) : "";
  }
}

std::string code_in_class(uint32_t code) {
  if (code <= 0xFFFF) return fmt::format("\\u{:04x}", code);
  std::string text;
  append_utf8(text, code);
  return text;
}

std::string class_of(const CodePoints& set) {
  if (set.ranges().empty()) return "[^" + code_in_class(0) + "-" + code_in_class(0x10FFFF) + "]";
  std::string made = "[";
  for (const CodeRange& range : set.ranges())
    made += code_in_class(range.first) + "-" + code_in_class(range.last);
  return made + "]";
}

// Returns the pattern of the characters of a set, as JSON writes them.
std::string characters_of(const CodePoints& set) {
  CodePoints plain = set.others(), escaped;
  for (const uint32_t code : {uint32_t{'"'}, uint32_t{'\\'}}) plain.add(code, code);
  plain.add(0, kFirstPlain - 1);
  std::string made = class_of(plain.others());
  for (const CodeRange& range : set.ranges()) {
    for (uint32_t code = range.first; code <= std::min(range.last, uint32_t{'\\'}); ++code) {
      const std::string escape = escape_of(code);
      if (!escape.empty()) made += "|" + escape;
    }
  }
  return "(?:" + made + ")";
}

std::string text_of(const PatternNode& node) {
  using Kind = PatternNode::Kind;
  std::string made;
  switch (node.kind) {
  case Kind::set: return characters_of(node.set);
  case Kind::sequence:
    for (const NodeRef& child : node.children) made += text_of(*child);
    return made;
  case Kind::choice:
    for (const NodeRef& child : node.children)
      made += (made.empty() ? "(?:" : "|") + text_of(*child);
    return made + ")";
  case Kind::both:
  case Kind::except:
    return std::string(node.kind == Kind::both ? "(?&" : "(?&!") +
           "(?:" + text_of(*node.children[0]) + ")(?:" + text_of(*node.children[1]) + "))";
  case Kind::list:
    for (const NodeRef& child : node.children) {
      const bool is_repeat = child->kind == Kind::repeat;
      const char* times = !is_repeat ? "" : child->most == 1 ? "?" : child->least == 0 ? "*" : "+";
      made += "(?:" + text_of(is_repeat ? *child->children.front() : *child) + ")" + times;
    }
    return "(?," + made + ")";
  case Kind::multiple: return fmt::format("(?%{})", node.remainders->divisor());
  case Kind::repeat: break;
  }
  const std::string most = node.most < 0 ? "" : std::to_string(node.most);
  return fmt::format("(?:{}){{{},{}}}", text_of(*node.children.front()), node.least, most);
}

} // namespace

std::string json_pattern(std::string_view pattern, std::string_view any) {
  const PatternTree tree = read_tree(pattern, PatternUse::searched);
  const std::string rest = fmt::format("(?:{})*", any);
  // ^ and $ belong to the first and the last alternative alone.
  const bool is_choice = tree.root->kind == PatternNode::Kind::choice;
  const size_t count = is_choice ? tree.root->children.size() : 1;
  std::string made;
  for (size_t i = 0; i < count; ++i) {
    const PatternNode& own = is_choice ? *tree.root->children[i] : *tree.root;
    made += made.empty() ? "(?:" : "|";
    if (!tree.from_start || i > 0) made += rest;
    made += text_of(own);
    if (!tree.to_end || i + 1 < count) made += rest;
  }
  return made + ")";
}

} // namespace dllm::text
