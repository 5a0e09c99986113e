#pragma once
// The Parser turns the source of a template into a tree. lexer.cpp makes tokens, parser.cpp
// statements, and parse_expression.cpp expressions.

#include "base/error.h"
#include "text/jinja/template.h"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  // The comment names the members that a node of this kind uses.
  enum class Kind {
    constant,  // value
    name,      // text
    list,      // parts
    tuple,     // parts
    map,       // parts: key, value, key, value ...
    attribute, // parts[0].text
    item,      // parts[0][parts[1]]
    slice,     // parts[0][parts[1]:parts[2]:parts[3]]; absent parts are null
    call,      // parts[0](parts[1..], named)
    filter,    // parts[0] | text(parts[1..], named); parts[0] null in a filter block
    test,      // parts[0] is text(parts[1..], named)
    unary,     // text: "-" "+" "not"; parts[0]
    binary,    // text: "+" ... "and" "or" "in"; parts[0], parts[1]
    compare,   // parts[0] texts[0] parts[1] texts[1] parts[2] ...
    choose,    // parts[0] if parts[1] else parts[2] (null: undefined)
  };
  Kind kind;
  std::string text;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> texts;
  int depth = 1;
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

struct Parameter {
  std::string name;
  ExpressionPtr fallback; // null: an absent argument is undefined
};

struct Statement {
  // The comment names the members that a node of this kind uses.
  enum class Kind {
    text,         // text
    output,       // value
    branch,       // value, body, otherwise
    loop,         // targets, value, test (may be null), body, otherwise, recursive
    set,          // targets, value; or text.attribute with is_attribute
    set_block,    // targets[0], body, filter (may be null)
    macro,        // text, parameters, body
    call_block,   // value: the call, parameters of caller(), body
    filter_block, // filter, body
    with,         // targets[i] = values[i], body
    generation,   // body
    leave,        // break
    next,         // continue
  };
  Kind kind;
  int line = 1;
  std::string source; // source of the tag, for errors
  std::string text;
  std::vector<std::string> targets;
  std::string attribute; // kind set: the target is text.attribute
  ExpressionPtr value, test, filter;
  std::vector<ExpressionPtr> values;
  std::vector<Parameter> parameters;
  Body body, otherwise;
  bool recursive = false;
};

// The kinds of tokens into which tokenize() cuts a template: text outside of tags, and the words of
// tags.
enum class TokenKind {
  text,      // outside of tags
  open,      // {{
  close,     // }}
  open_tag,  // {%
  close_tag, // %}
  name,
  integer,
  real,
  string, // value: the text without quotes and escapes
  sign,   // value: "(", "//", "==" ...
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string value;
  int line = 1;
  size_t begin = 0; // offset in the source
};

// Returns the source with line ends "\n", and without the last line end.
std::string clean_source(std::string_view source);
// Cuts the result of clean_source() into tokens. Removes white space around tags as every chat
// template expects: trim_blocks and lstrip_blocks are on, and the signs - and + are supported.
// Fails with invalid_argument naming the line.
std::vector<Token> tokenize(std::string_view source);

// Counts one level of recursion while it lives, because an untrusted template may hold a million
// brackets.
class Nested {
public:
  explicit Nested(int& depth) : depth_(depth) {
    if (depth_ >= kDeepest) {
      fail(Code::resource_exhausted, "the template nests deeper than {} levels", kDeepest);
    }
    ++depth_;
  }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;

  static constexpr int kDeepest = 100;

private:
  int& depth_;
};

// Returns the tag that begins at `begin`, on one line, for errors.
std::string tag_source(std::string_view source, size_t begin);

// A parser by recursive descent.
class Parser {
public:
  // source: result of clean_source(), which outlives the parser.
  explicit Parser(std::string_view source);

  // Parses the source. Fails with invalid_argument naming the line, and with resource_exhausted
  // when tags nest too deep. Fails with unimplemented for statements that chat templates do not use
  // (include, extends ...).
  Body run();
  bool has_generation() const { return has_generation_; }

private:
  // statements
  Body body_until(std::initializer_list<std::string_view> ends);
  StatementPtr statement();
  StatementPtr make(Statement::Kind kind);
  StatementPtr parse_branch();
  StatementPtr parse_loop();
  StatementPtr parse_set();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_filter_block();
  StatementPtr parse_with();
  StatementPtr parse_generation();
  StatementPtr parse_break();
  StatementPtr parse_continue();
  StatementPtr jump(const char* word, Statement::Kind kind);
  void end_block(std::string_view word);
  std::vector<std::string> parse_targets();
  std::vector<Parameter> parse_parameters();

  // expressions, from the loosest to the tightest
  ExpressionPtr parse_tuple(bool with_choice = true);
  ExpressionPtr parse_expression(bool with_choice = true);
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters(ExpressionPtr node);
  ExpressionPtr parse_one_filter(ExpressionPtr node);
  ExpressionPtr parse_test(ExpressionPtr node);
  ExpressionPtr parse_subscript(ExpressionPtr node);
  ExpressionPtr parse_list();
  ExpressionPtr parse_map();
  ExpressionPtr parse_parenthesis();
  void parse_arguments(Expression& call);
  static ExpressionPtr make(Expression::Kind kind, std::string text = {});
  void hold(Expression& node, ExpressionPtr part);
  ExpressionPtr binary(const std::string& sign, ExpressionPtr left, ExpressionPtr right);

  // words
  const Token& peek(size_t ahead = 0) const;
  Token take();
  bool is_sign(std::string_view sign) const;
  bool is_name(std::string_view name) const;
  bool skip_sign(std::string_view sign);
  bool skip_name(std::string_view name);
  void expect_sign(std::string_view sign);
  std::string expect_name(const char* what);
  void expect(TokenKind kind, const char* what);
  [[noreturn]] void error(const std::string& what) const;
  std::string describe(const Token& token) const;

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  size_t tag_ = 0; // offset of the tag that is parsed
  bool has_generation_ = false;
};

} // namespace dllm::text::jinja
