#pragma once
// A parsed template. Which members of a node mean something depends on its kind, as noted.

#include "text/jinja/value.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    constant,  // value
    name,      // text
    list,      // parts
    tuple,     // parts
    map,       // parts: key, value, key, value ...
    attribute, // parts[0].text
    item,      // parts[0][parts[1]]
    slice,     // parts[0][parts[1]:parts[2]:parts[3]]; those left out are null
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
  ExpressionPtr fallback; // null: undefined when not given
};

struct Statement {
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
  std::string source; // of the tag, for errors
  std::string text;
  std::vector<std::string> targets;
  std::string attribute; // of set: the target is text.attribute
  ExpressionPtr value, test, filter;
  std::vector<ExpressionPtr> values;
  std::vector<Parameter> parameters;
  Body body, otherwise;
  bool recursive = false;
};

} // namespace dllm::text::jinja
