#pragma once
// Words to trees, by recursive descent. parser.cpp: statements; parse_expression.cpp: expressions.

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text::jinja {

class Parser {
public:
  // source: from clean_source, outlives the parser.
  explicit Parser(std::string_view source);

  // Fails with invalid_argument naming the line, unimplemented for what templates of other kinds
  // use (include, extends ...), resource_exhausted when tags nest too deep.
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
  size_t tag_ = 0; // where the tag being parsed begins
  bool has_generation_ = false;
};

} // namespace dllm::text::jinja
