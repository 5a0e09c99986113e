#include "text/jinja/parser.h"

#include "base/number.h"

#include <algorithm>
#include <charconv>

namespace dllm::text::jinja {

using Kind = Expression::Kind;

ExpressionPtr Parser::make(Kind kind, std::string text) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->text = std::move(text);
  return node;
}

void Parser::hold(Expression& node, ExpressionPtr part) {
  // The parser does not recurse for a long chain (a + b + ...), but evaluation does.
  constexpr int kDeepest = 200;
  if (part != nullptr) node.depth = std::max(node.depth, part->depth + 1);
  if (node.depth > kDeepest) {
    fail(Code::resource_exhausted, "line {}: an expression nests deeper than {} levels",
         peek().line, kDeepest);
  }
  node.parts.push_back(std::move(part));
}

ExpressionPtr Parser::binary(const std::string& sign, ExpressionPtr left, ExpressionPtr right) {
  ExpressionPtr node = make(Kind::binary, sign);
  hold(*node, std::move(left));
  hold(*node, std::move(right));
  return node;
}

ExpressionPtr Parser::parse_tuple(bool with_choice) {
  ExpressionPtr first = parse_expression(with_choice);
  if (!is_sign(",")) return first;
  ExpressionPtr node = make(Kind::tuple);
  hold(*node, std::move(first));
  while (skip_sign(",")) {
    const TokenKind kind = peek().kind;
    if (kind == TokenKind::close || kind == TokenKind::close_tag || is_sign(")")) break;
    hold(*node, parse_expression(with_choice));
  }
  return node;
}

ExpressionPtr Parser::parse_expression(bool with_choice) {
  const Nested nested(depth_);
  ExpressionPtr node = parse_or();
  while (with_choice && skip_name("if")) {
    ExpressionPtr choice = make(Kind::choose);
    hold(*choice, std::move(node));
    hold(*choice, parse_or());
    hold(*choice, skip_name("else") ? parse_expression() : nullptr);
    node = std::move(choice);
  }
  return node;
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr node = parse_and();
  while (skip_name("or")) node = binary("or", std::move(node), parse_and());
  return node;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr node = parse_not();
  while (skip_name("and")) node = binary("and", std::move(node), parse_not());
  return node;
}

ExpressionPtr Parser::parse_not() {
  if (!skip_name("not")) return parse_compare();
  const Nested nested(depth_);
  ExpressionPtr node = make(Kind::unary, "not");
  hold(*node, parse_not());
  return node;
}

ExpressionPtr Parser::parse_compare() {
  ExpressionPtr first = parse_sum();
  ExpressionPtr node = make(Kind::compare);
  for (;;) {
    std::string sign;
    for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
      if (is_sign(known)) sign = take().value;
    }
    if (sign.empty() && skip_name("in")) sign = "in";
    const bool not_in =
        sign.empty() && is_name("not") && peek(1).kind == TokenKind::name && peek(1).value == "in";
    if (not_in) {
      take();
      take();
      sign = "not in";
    }
    if (sign.empty()) break;
    if (node->parts.empty()) hold(*node, std::move(first));
    node->texts.push_back(sign);
    hold(*node, parse_sum());
  }
  return node->parts.empty() ? std::move(first) : std::move(node);
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr node = parse_concat();
  while (is_sign("+") || is_sign("-")) {
    const std::string sign = take().value;
    node = binary(sign, std::move(node), parse_concat());
  }
  return node;
}

ExpressionPtr Parser::parse_concat() {
  ExpressionPtr node = parse_product();
  while (skip_sign("~")) node = binary("~", std::move(node), parse_product());
  return node;
}

ExpressionPtr Parser::parse_product() {
  ExpressionPtr node = parse_power();
  while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
    const std::string sign = take().value;
    node = binary(sign, std::move(node), parse_power());
  }
  return node;
}

ExpressionPtr Parser::parse_power() {
  ExpressionPtr node = parse_unary();
  while (skip_sign("**")) node = binary("**", std::move(node), parse_unary());
  return node;
}

ExpressionPtr Parser::parse_unary(bool with_filter) {
  const Nested nested(depth_);
  ExpressionPtr node;
  if (is_sign("-") || is_sign("+")) {
    node = make(Kind::unary, take().value);
    hold(*node, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::parse_primary() {
  const Token token = peek();
  switch (token.kind) {
  case TokenKind::name: {
    take();
    ExpressionPtr node = make(Kind::constant);
    if (token.value == "true" || token.value == "True") {
      node->value = Value(true);
    } else if (token.value == "false" || token.value == "False") {
      node->value = Value(false);
    } else if (token.value == "none" || token.value == "None") {
      node->value = Value::none();
    } else {
      node = make(Kind::name, token.value);
    }
    return node;
  }
  case TokenKind::integer: {
    int64_t value = 0;
    const char* end = token.value.data() + token.value.size();
    const auto read = std::from_chars(token.value.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end) {
      error("the number " + token.value.substr(0, 40) + " is too large");
    }
    take();
    ExpressionPtr node = make(Kind::constant);
    node->value = Value(value);
    return node;
  }
  case TokenKind::real: {
    ExpressionPtr node = make(Kind::constant);
    const std::string digits = take().value;
    const auto value = parse_number(digits);
    if (!value) error("the number " + digits.substr(0, 40) + " is too large or too small");
    node->value = Value(*value);
    return node;
  }
  case TokenKind::string: {
    std::string text;
    while (peek().kind == TokenKind::string) text += take().value;
    ExpressionPtr node = make(Kind::constant);
    node->value = Value(std::move(text));
    return node;
  }
  default: break;
  }
  if (is_sign("(")) return parse_parenthesis();
  if (is_sign("[")) return parse_list();
  if (is_sign("{")) return parse_map();
  error(fmt::format("expected a value, found {}", describe(token)));
}

ExpressionPtr Parser::parse_parenthesis() {
  expect_sign("(");
  if (skip_sign(")")) return make(Kind::tuple);
  ExpressionPtr node = parse_tuple();
  expect_sign(")");
  return node;
}

ExpressionPtr Parser::parse_list() {
  ExpressionPtr node = make(Kind::list);
  expect_sign("[");
  while (!is_sign("]")) {
    if (!node->parts.empty()) expect_sign(",");
    if (is_sign("]")) break;
    hold(*node, parse_expression());
  }
  expect_sign("]");
  return node;
}

ExpressionPtr Parser::parse_map() {
  ExpressionPtr node = make(Kind::map);
  expect_sign("{");
  while (!is_sign("}")) {
    if (!node->parts.empty()) expect_sign(",");
    if (is_sign("}")) break;
    hold(*node, parse_expression());
    expect_sign(":");
    hold(*node, parse_expression());
  }
  expect_sign("}");
  return node;
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr node) {
  for (;;) {
    if (skip_sign(".")) {
      if (peek().kind == TokenKind::integer) {
        ExpressionPtr item = make(Kind::item);
        hold(*item, std::move(node));
        hold(*item, parse_primary());
        node = std::move(item);
        continue;
      }
      ExpressionPtr attribute = make(Kind::attribute, expect_name("an attribute"));
      hold(*attribute, std::move(node));
      node = std::move(attribute);
    } else if (is_sign("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_sign("(")) {
      ExpressionPtr call = make(Kind::call);
      hold(*call, std::move(node));
      parse_arguments(*call);
      node = std::move(call);
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr node) {
  expect_sign("[");
  ExpressionPtr bounds[3];
  size_t colons = 0;
  while (!is_sign("]")) {
    if (is_sign(":") && colons < 2) {
      take();
      ++colons;
    } else if (bounds[colons] == nullptr) {
      bounds[colons] = parse_tuple();
    } else {
      break;
    }
  }
  expect_sign("]");
  ExpressionPtr made = make(colons == 0 ? Kind::item : Kind::slice);
  hold(*made, std::move(node));
  if (colons == 0 && bounds[0] == nullptr) error("[] needs an index");
  for (size_t i = 0; i < (colons == 0 ? 1 : 3); ++i) hold(*made, std::move(bounds[i]));
  return made;
}

void Parser::parse_arguments(Expression& call) {
  expect_sign("(");
  const size_t first = call.parts.size();
  while (!is_sign(")")) {
    if (call.parts.size() > first || !call.named.empty()) expect_sign(",");
    if (is_sign(")")) break;
    const bool named =
        peek().kind == TokenKind::name && peek(1).kind == TokenKind::sign && peek(1).value == "=";
    if (is_sign("*") || is_sign("**")) error("arguments with * are not known");
    if (named) {
      std::string name = take().value;
      take();
      ExpressionPtr value = parse_expression();
      call.depth = std::max(call.depth, value->depth + 1);
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.named.empty())
        error("an argument without a name comes after an argument with a name");
      hold(call, parse_expression());
    }
  }
  expect_sign(")");
}

ExpressionPtr Parser::parse_filters(ExpressionPtr node) {
  for (;;) {
    if (skip_sign("|")) {
      node = parse_one_filter(std::move(node));
    } else if (node != nullptr && is_name("is")) {
      take();
      node = parse_test(std::move(node));
    } else if (node != nullptr && is_sign("(")) {
      ExpressionPtr call = make(Kind::call);
      hold(*call, std::move(node));
      parse_arguments(*call);
      node = std::move(call);
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_one_filter(ExpressionPtr node) {
  std::string name = expect_name("a filter");
  while (skip_sign(".")) name += "." + expect_name("a filter");
  ExpressionPtr filter = make(Kind::filter, std::move(name));
  hold(*filter, std::move(node));
  if (is_sign("(")) parse_arguments(*filter);
  return filter;
}

ExpressionPtr Parser::parse_test(ExpressionPtr node) {
  const bool negated = skip_name("not");
  ExpressionPtr test = make(Kind::test, expect_name("a test"));
  hold(*test, std::move(node));
  const TokenKind kind = peek().kind;
  const bool is_word = kind == TokenKind::name && !is_name("else") && !is_name("or") &&
                       !is_name("and") && !is_name("is") && !is_name("if") && !is_name("in") &&
                       !is_name("not");
  if (is_sign("(")) {
    parse_arguments(*test);
  } else if (is_word || kind == TokenKind::string || kind == TokenKind::integer ||
             kind == TokenKind::real || is_sign("[") || is_sign("{")) {
    hold(*test, parse_postfix(parse_primary()));
  }
  if (!negated) return test;
  ExpressionPtr inverse = make(Kind::unary, "not");
  hold(*inverse, std::move(test));
  return inverse;
}

} // namespace dllm::text::jinja
