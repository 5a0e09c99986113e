#include "text/jinja/parser.h"

#include "base/error.h"
#include "base/named_table.h"
#include "text/unicode.h"

#include <algorithm>

namespace dllm::text::jinja {

Parser::Parser(std::string_view source) : source_(source), tokens_(tokenize(source)) {}

Body Parser::run() {
  Body body = body_until({});
  if (peek().kind != TokenKind::end) error("no block is open that this could end");
  return body;
}

const Token& Parser::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Parser::take() {
  Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_sign(std::string_view sign) const {
  return peek().kind == TokenKind::sign && peek().value == sign;
}
bool Parser::is_name(std::string_view name) const {
  return peek().kind == TokenKind::name && peek().value == name;
}
bool Parser::skip_sign(std::string_view sign) {
  return is_sign(sign) && (take(), true);
}
bool Parser::skip_name(std::string_view name) {
  return is_name(name) && (take(), true);
}

void Parser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) error(fmt::format("expected {}, found {}", sign, describe(peek())));
}

std::string Parser::expect_name(const char* what) {
  if (peek().kind != TokenKind::name) {
    error(fmt::format("expected {}, found {}", what, describe(peek())));
  }
  return take().value;
}

void Parser::expect(TokenKind kind, const char* what) {
  if (peek().kind != kind) error(fmt::format("expected {}, found {}", what, describe(peek())));
  take();
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
  case TokenKind::end: return "the end of the template";
  case TokenKind::close: return "}}";
  case TokenKind::close_tag: return "%}";
  case TokenKind::open: return "{{";
  case TokenKind::open_tag: return "{%";
  case TokenKind::text: return "text";
  case TokenKind::string: return "a string";
  default: return replace_invalid(token.value);
  }
}

void Parser::error(const std::string& what) const {
  fail(Code::invalid_argument, "line {}: {}: {}", peek().line, tag_source(source_, tag_), what);
}

std::string tag_source(std::string_view source, size_t begin) {
  constexpr size_t kLongest = 90;
  std::string_view tag = source.substr(begin);
  for (const std::string_view close : {"}}", "%}"}) {
    const bool fits = tag.substr(0, 2) == (close == "}}" ? "{{" : "{%");
    const size_t end = fits ? tag.find(close) : std::string_view::npos;
    if (end != std::string_view::npos) tag = tag.substr(0, end + 2);
  }
  std::string text;
  for (const char c : tag.substr(0, kLongest)) {
    const bool blank = static_cast<unsigned char>(c) <= ' ';
    if (!blank || (!text.empty() && text.back() != ' ')) text += blank ? ' ' : c;
  }
  if (tag.size() > kLongest) text += "...";
  return replace_invalid(text);
}

StatementPtr Parser::make(Statement::Kind kind) {
  auto node = std::make_unique<Statement>();
  node->kind = kind;
  node->line = peek().line;
  node->source = tag_source(source_, tag_);
  return node;
}

Body Parser::body_until(std::initializer_list<std::string_view> ends) {
  const Nested nested(depth_);
  Body body;
  for (;;) {
    tag_ = peek().begin;
    const TokenKind kind = peek().kind;
    if (kind == TokenKind::end) {
      if (ends.size() > 0)
        error(fmt::format("the template ends before {{% {} %}}", *(ends.end() - 1)));
      return body;
    }
    if (kind == TokenKind::text) {
      body.push_back(make(Statement::Kind::text));
      body.back()->text = take().value;
      continue;
    }
    if (kind == TokenKind::open) {
      take();
      StatementPtr node = make(Statement::Kind::output);
      node->value = parse_tuple();
      expect(TokenKind::close, "}}");
      body.push_back(std::move(node));
      continue;
    }
    expect(TokenKind::open_tag, "a tag");
    const bool ends_here = peek().kind == TokenKind::name &&
                           std::find(ends.begin(), ends.end(), peek().value) != ends.end();
    if (ends_here) return body;
    body.push_back(statement());
  }
}

void Parser::end_block(std::string_view word) {
  if (!skip_name(word)) error(fmt::format("expected {}, found {}", word, describe(peek())));
  expect(TokenKind::close_tag, "%}");
}

StatementPtr Parser::statement() {
  const std::string word = expect_name("a statement");
  static constexpr std::pair<std::string_view, StatementPtr (Parser::*)()> kStatements[] = {
      {"if", &Parser::parse_branch},       {"for", &Parser::parse_loop},
      {"set", &Parser::parse_set},         {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block}, {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},       {"generation", &Parser::parse_generation},
      {"break", &Parser::parse_break},     {"continue", &Parser::parse_continue}};
  static constexpr std::string_view kOther[] = {"include", "import", "from",       "extends",
                                                "block",   "do",     "autoescape", "trans"};
  if (find_named(kOther, word, std::identity()) != nullptr) {
    fail_with_hint("chat templates are one file without extensions", Code::unimplemented,
                   "line {}: {{% {} %}} is not known", peek().line, word);
  }
  const std::string where = fmt::format("in line {}: {}", peek().line, tag_source(source_, tag_));
  const auto parse =
      need_named(kStatements, word, kEntryName, {"statement", where, "", Code::invalid_argument})
          .second;
  return (this->*parse)();
}

StatementPtr Parser::parse_break() {
  return jump("break", Statement::Kind::leave);
}

StatementPtr Parser::parse_continue() {
  return jump("continue", Statement::Kind::next);
}

StatementPtr Parser::jump(const char* word, Statement::Kind kind) {
  if (loops_ == 0) error(fmt::format("{} outside of a loop", word));
  StatementPtr node = make(kind);
  expect(TokenKind::close_tag, "%}");
  return node;
}

StatementPtr Parser::parse_branch() {
  StatementPtr node = make(Statement::Kind::branch);
  node->value = parse_tuple();
  expect(TokenKind::close_tag, "%}");
  node->body = body_until({"elif", "else", "endif"});
  if (skip_name("elif")) {
    const Nested nested(depth_);
    node->otherwise.push_back(parse_branch());
    return node;
  }
  if (skip_name("else")) {
    expect(TokenKind::close_tag, "%}");
    node->otherwise = body_until({"endif"});
  }
  end_block("endif");
  return node;
}

StatementPtr Parser::parse_loop() {
  StatementPtr node = make(Statement::Kind::loop);
  node->targets = parse_targets();
  if (!skip_name("in")) error(fmt::format("expected in, found {}", describe(peek())));
  node->value = parse_tuple(false);
  if (skip_name("if")) node->test = parse_expression();
  node->recursive = skip_name("recursive");
  expect(TokenKind::close_tag, "%}");
  ++loops_;
  node->body = body_until({"else", "endfor"});
  --loops_;
  if (skip_name("else")) {
    expect(TokenKind::close_tag, "%}");
    node->otherwise = body_until({"endfor"});
  }
  end_block("endfor");
  return node;
}

StatementPtr Parser::parse_set() {
  StatementPtr node = make(Statement::Kind::set);
  if (peek(1).kind == TokenKind::sign && peek(1).value == ".") {
    node->text = expect_name("a namespace");
    take();
    node->attribute = expect_name("an attribute");
  } else {
    node->targets = parse_targets();
  }
  if (skip_sign("=")) {
    node->value = parse_tuple();
    expect(TokenKind::close_tag, "%}");
    return node;
  }
  if (node->targets.size() > 1) error("a block has one value");
  node->kind = Statement::Kind::set_block;
  if (is_sign("|")) node->filter = parse_filters(nullptr);
  expect(TokenKind::close_tag, "%}");
  node->body = body_until({"endset"});
  end_block("endset");
  return node;
}

StatementPtr Parser::parse_macro() {
  StatementPtr node = make(Statement::Kind::macro);
  node->text = expect_name("the name of the macro");
  node->parameters = parse_parameters();
  expect(TokenKind::close_tag, "%}");
  const int loops = std::exchange(loops_, 0);
  node->body = body_until({"endmacro"});
  loops_ = loops;
  end_block("endmacro");
  return node;
}

StatementPtr Parser::parse_call_block() {
  StatementPtr node = make(Statement::Kind::call_block);
  if (is_sign("(")) node->parameters = parse_parameters();
  node->value = parse_expression();
  if (node->value->kind != Expression::Kind::call) error("{% call %} needs a call");
  expect(TokenKind::close_tag, "%}");
  const int loops = std::exchange(loops_, 0);
  node->body = body_until({"endcall"});
  loops_ = loops;
  end_block("endcall");
  return node;
}

StatementPtr Parser::parse_filter_block() {
  StatementPtr node = make(Statement::Kind::filter_block);
  node->filter = parse_filters(parse_one_filter(nullptr));
  expect(TokenKind::close_tag, "%}");
  node->body = body_until({"endfilter"});
  end_block("endfilter");
  return node;
}

StatementPtr Parser::parse_with() {
  StatementPtr node = make(Statement::Kind::with);
  while (peek().kind == TokenKind::name) {
    node->targets.push_back(take().value);
    expect_sign("=");
    node->values.push_back(parse_expression());
    if (!skip_sign(",")) break;
  }
  expect(TokenKind::close_tag, "%}");
  node->body = body_until({"endwith"});
  end_block("endwith");
  return node;
}

StatementPtr Parser::parse_generation() {
  StatementPtr node = make(Statement::Kind::generation);
  has_generation_ = true;
  expect(TokenKind::close_tag, "%}");
  node->body = body_until({"endgeneration"});
  end_block("endgeneration");
  return node;
}

std::vector<std::string> Parser::parse_targets() {
  const bool closed = skip_sign("(");
  std::vector<std::string> names = {expect_name("a variable")};
  while (skip_sign(",")) {
    if (peek().kind != TokenKind::name || is_name("in")) break;
    names.push_back(take().value);
  }
  if (closed) expect_sign(")");
  return names;
}

std::vector<Parameter> Parser::parse_parameters() {
  std::vector<Parameter> parameters;
  expect_sign("(");
  while (!is_sign(")")) {
    if (!parameters.empty()) expect_sign(",");
    if (is_sign(")")) break;
    parameters.push_back({expect_name("a parameter"), nullptr});
    if (skip_sign("=")) parameters.back().fallback = parse_expression();
  }
  expect_sign(")");
  return parameters;
}

} // namespace dllm::text::jinja
