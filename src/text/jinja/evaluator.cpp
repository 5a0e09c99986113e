#include "text/jinja/evaluator.h"

#include "text/jinja/template.h"

#include <algorithm>

namespace dllm::text::jinja {

using Kind = Expression::Kind;

const Value* Arguments::take(size_t index, std::string_view name) {
  if (index < positional.size()) {
    taken_ = std::max(taken_, index + 1);
    return &positional[index];
  }
  for (const auto& [known, value] : named) {
    if (known != name) continue;
    used_.push_back(known);
    return &value;
  }
  return nullptr;
}

void Arguments::done(std::string_view who) const {
  if (positional.size() > taken_) {
    fail(Code::invalid_argument, "{} takes {} arguments, not {}", who, taken_, positional.size());
  }
  for (const auto& [name, value] : named) {
    if (std::find(used_.begin(), used_.end(), name) == used_.end()) {
      fail(Code::invalid_argument, "{} takes no argument {}", who, name);
    }
  }
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    for (const auto& [known, value] : scope->variables_) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, held] : variables_) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  variables_.emplace_back(name, std::move(value));
}

int64_t need_integer(const Value& value, std::string_view what) {
  if (!value.is_whole()) {
    fail(Code::invalid_argument, "{} must be an integer, not a {}", what, value.type_name());
  }
  return value.integer();
}

const MarkedText& need_text(const Value& value, std::string_view what) {
  if (!value.is_text()) {
    fail(Code::invalid_argument, "{} must be a string, not a {}", what, value.type_name());
  }
  return value.text();
}

Value Evaluator::list(Items items) {
  budget.step(items.size());
  budget.grow(items.size() * sizeof(Value));
  return Value::list(std::move(items));
}

Value Evaluator::evaluate(const Expression& node, const Scope& scope) {
  const Budget::Level level(budget);
  budget.step();
  Value made = compute(node, scope);
  // Only a new value is charged; a value that others share was charged when it was made.
  if (node.kind != Kind::constant && node.kind != Kind::name && made.is_fresh()) {
    const size_t bytes = made.footprint();
    budget.step(bytes / 16);
    budget.grow(bytes);
  }
  return made;
}

Value Evaluator::compute(const Expression& node, const Scope& scope) {
  switch (node.kind) {
  case Kind::constant: return node.value;
  case Kind::name: {
    const Value* found = scope.find(node.text);
    if (found == nullptr) found = find_global(node.text);
    return found != nullptr ? *found : Value::undefined(node.text);
  }
  case Kind::list:
  case Kind::tuple: {
    Items items;
    for (const ExpressionPtr& part : node.parts) items.push_back(evaluate(*part, scope));
    return node.kind == Kind::list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  case Kind::map: return map_of(node, scope);
  case Kind::attribute: return attribute(evaluate(*node.parts[0], scope), node.text);
  case Kind::item: return item(evaluate(*node.parts[0], scope), evaluate(*node.parts[1], scope));
  case Kind::slice: return slice(node, scope);
  case Kind::call: {
    const Value callee = evaluate(*node.parts[0], scope);
    return call(callee, arguments_of(node, scope));
  }
  case Kind::filter: return apply_filters(node, Value(), scope);
  case Kind::test: {
    const Value input = evaluate(*node.parts[0], scope);
    return Value(test(node.text, input, arguments_of(node, scope)));
  }
  case Kind::unary: return apply_unary(node.text, evaluate(*node.parts[0], scope));
  case Kind::binary: {
    Value left = evaluate(*node.parts[0], scope);
    if (node.text == "and") return left.truth() ? evaluate(*node.parts[1], scope) : left;
    if (node.text == "or") return left.truth() ? left : evaluate(*node.parts[1], scope);
    return apply_binary(*this, node.text, left, evaluate(*node.parts[1], scope));
  }
  case Kind::compare: return compare_chain(node, scope);
  case Kind::choose:
    if (evaluate(*node.parts[1], scope).truth()) return evaluate(*node.parts[0], scope);
    return node.parts[2] == nullptr ? Value::undefined("the other side of an if")
                                    : evaluate(*node.parts[2], scope);
  }
  fail(Code::internal, "an expression of an unknown kind");
}

// Applies the filters of a chain from the inside out. `input` is the text of a filter block, whose
// innermost filter has no expression.
Value Evaluator::apply_filters(const Expression& node, const Value& input, const Scope& scope) {
  const Expression* inner = node.parts[0].get();
  Value value = input;
  if (inner != nullptr) {
    // Only a chain of filters passes the input of its block on.
    value =
        inner->kind == Kind::filter ? apply_filters(*inner, input, scope) : evaluate(*inner, scope);
  }
  return filter(node.text, value, arguments_of(node, scope));
}

Arguments Evaluator::arguments_of(const Expression& node, const Scope& scope) {
  Arguments arguments;
  for (size_t i = 1; i < node.parts.size(); ++i) {
    arguments.positional.push_back(evaluate(*node.parts[i], scope));
  }
  for (const auto& [name, part] : node.named) {
    arguments.named.emplace_back(name, evaluate(*part, scope));
  }
  return arguments;
}

Value Evaluator::map_of(const Expression& node, const Scope& scope) {
  Entries entries;
  for (size_t i = 0; i + 1 < node.parts.size(); i += 2) {
    Value key = evaluate(*node.parts[i], scope);
    Value value = evaluate(*node.parts[i + 1], scope);
    budget.step(entries.size() / 16);
    const auto known = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return equal(budget, entry.first, key);
    });
    if (known != entries.end()) {
      known->second = std::move(value);
    } else {
      entries.emplace_back(std::move(key), std::move(value));
    }
  }
  return Value::map(std::move(entries));
}

Value Evaluator::compare_chain(const Expression& node, const Scope& scope) {
  Value left = evaluate(*node.parts[0], scope);
  for (size_t i = 0; i < node.texts.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1], scope);
    const std::string& sign = node.texts[i];
    bool holds = false;
    if (sign == "==" || sign == "!=") {
      holds = equal(budget, left, right) == (sign == "==");
    } else if (sign == "in" || sign == "not in") {
      holds = contains(*this, left, right) == (sign == "in");
    } else {
      const int order = compare(budget, left, right);
      holds = sign == "<"    ? order < 0
              : sign == "<=" ? order <= 0
              : sign == ">"  ? order > 0
                             : order >= 0;
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::attribute(const Value& of, const std::string& name) {
  if (of.is_undefined()) {
    fail(Code::invalid_argument, "{} is undefined, it has no {}", of.undefined_name(), name);
  }
  if (of.is(Type::function)) return of.function()->attribute(name);
  if (of.is(Type::space)) {
    const Value* found = of.find(std::string_view(name));
    return found != nullptr ? *found : Value::undefined(name);
  }
  if (of.is_group() && (name == "grouper" || name == "list"))
    return of.items()[name == "list" ? 1 : 0];
  Value method = find_method(of, name);
  if (!method.is_undefined()) return method;
  if (of.is(Type::map)) {
    budget.step(of.entries().size() / 16);
    if (const Value* found = of.find(std::string_view(name))) return *found;
  }
  return Value::undefined(name);
}

Value Evaluator::item(const Value& of, const Value& key) {
  if (of.is_undefined()) {
    fail(Code::invalid_argument, "{} is undefined, it has no items", of.undefined_name());
  }
  if (of.is(Type::map)) {
    budget.step(of.entries().size() / 16);
    if (const Value* found = of.find(key)) return *found;
  }
  const bool indexed = of.is_sequence() || of.is_text();
  if (indexed && key.is_whole()) {
    const Characters characters = of.is_text() ? Characters(budget, of.text()) : Characters();
    const auto count = static_cast<int64_t>(of.is_text() ? characters.count() : of.items().size());
    const int64_t at = key.integer() < 0 ? key.integer() + count : key.integer();
    if (at < 0 || at >= count) return Value::undefined(fmt::format("item {}", key.integer()));
    const auto index = static_cast<size_t>(at);
    return of.is_text() ? Value(characters.slice(index, index + 1)) : of.items()[index];
  }
  // {{ message['strip'] }} finds what {{ message.strip }} finds.
  if (key.is_text()) return attribute(of, key.bytes());
  return Value::undefined("an item");
}

Value Evaluator::path(const Value& of, const Value& name) {
  if (name.is_whole()) return item(of, name);
  const std::string& text = need_text(name, "an attribute's name").bytes();
  Value value = of;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('.', at), text.size());
    const std::string part = text.substr(at, end - at);
    const bool number = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    value = item(value, number ? Value(int64_t{std::stoll(part)}) : Value(part));
    at = end + 1;
  }
  return value;
}

Value Evaluator::slice(const Expression& node, const Scope& scope) {
  const Value of = evaluate(*node.parts[0], scope);
  int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (node.parts[i + 1] == nullptr) continue;
    const Value bound = evaluate(*node.parts[i + 1], scope);
    if (bound.is_none()) continue;
    bounds[i] = need_integer(bound, "a bound of a slice");
    given[i] = true;
  }
  if (of.is_undefined()) {
    fail(Code::invalid_argument, "{} is undefined, it cannot be sliced", of.undefined_name());
  }
  if (!of.is_sequence() && !of.is_text())
    return Value::undefined(
        fmt::format("a slice of {} {}", of.is_whole() ? "an" : "a", of.type_name()));
  const int64_t step = bounds[2];
  if (step == 0) fail(Code::invalid_argument, "the step of a slice must not be 0");
  const Characters characters = of.is_text() ? Characters(budget, of.text()) : Characters();
  const auto count = static_cast<int64_t>(of.is_text() ? characters.count() : of.items().size());
  const auto clamp = [&](int64_t value) {
    if (value < 0) value = value < -count ? -1 : value + count;
    return step > 0 ? std::clamp<int64_t>(value, 0, count)
                    : std::clamp<int64_t>(value, -1, count - 1);
  };
  const int64_t begin = given[0] ? clamp(bounds[0]) : step > 0 ? 0 : count - 1;
  const int64_t end = given[1] ? clamp(bounds[1]) : step > 0 ? count : -1;
  if (of.is_text() && step == 1) {
    return Value(
        characters.slice(static_cast<size_t>(begin), static_cast<size_t>(std::max(begin, end))));
  }
  MarkedText text;
  Items items;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    budget.step();
    const auto index = static_cast<size_t>(at);
    if (of.is_text()) {
      text.append(characters.slice(index, index + 1));
    } else {
      items.push_back(of.items()[index]);
    }
    // A huge step ends the loop before the index exceeds 2^63.
    if (step > count || step < -count) break;
    at += step;
  }
  if (of.is_text()) return Value(std::move(text));
  return of.is(Type::tuple) ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Items Evaluator::items_of(const Value& value) {
  Items items;
  switch (value.type()) {
  case Type::undefined: break;
  case Type::list:
  case Type::tuple: items = value.items(); break;
  case Type::map:
    for (const auto& entry : value.entries()) items.push_back(entry.first);
    break;
  case Type::text: {
    const Characters characters(budget, value.text());
    budget.grow(characters.count() * (sizeof(Value) + sizeof(MarkedText)));
    for (size_t i = 0; i < characters.count(); ++i) {
      items.emplace_back(characters.slice(i, i + 1));
    }
    break;
  }
  default: fail(Code::invalid_argument, "a {} cannot be iterated", value.type_name());
  }
  budget.step(items.size());
  budget.grow(items.size() * sizeof(Value));
  return items;
}

Value Evaluator::call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) {
    fail(Code::invalid_argument, "{} is undefined, it cannot be called", callee.undefined_name());
  }
  if (!callee.is(Type::function)) {
    fail(Code::invalid_argument, "a {} cannot be called", callee.type_name());
  }
  const Budget::Level level(budget);
  return callee.function()->call(*this, arguments);
}

} // namespace dllm::text::jinja
