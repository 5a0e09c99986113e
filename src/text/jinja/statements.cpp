// This file makes a Template from its source and runs statements.
#include "base/error.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/jinja/template.h"

namespace dllm::text::jinja {

struct Template::Tree {
  Body body;
};

namespace {

[[noreturn]] void rethrow(const Error& error, const std::string& where) {
  throw Error(error.code(), where + ": " + error.text(), error.hint());
}

} // namespace

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  const std::string clean = clean_source(source);
  try {
    Parser parser(clean);
    tree_ = std::make_unique<Tree>(Tree{parser.run()});
    has_generation_ = parser.has_generation();
  } catch (const Error& error) {
    rethrow(error, name_);
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;

MarkedText Template::render(const Entries& variables, const Limits& limits) const {
  Evaluator evaluator(limits);
  try {
    return evaluator.run(tree_->body, variables);
  } catch (const Error& error) {
    const Statement* at = evaluator.current();
    if (at == nullptr) rethrow(error, name_);
    rethrow(error, fmt::format("{}: line {}: {}", name_, at->line, at->source));
  }
}

// The statements of a template.

using StatementKind = Statement::Kind;

MarkedText Evaluator::run(const Body& body, const Entries& variables) {
  Scope scope(nullptr);
  for (const auto& [name, value] : variables) scope.set(name.bytes(), value);
  return render(body, scope);
}

MarkedText Evaluator::render(const Body& body, Scope& scope) {
  MarkedText out;
  execute(body, scope, out);
  return out;
}

Evaluator::Flow Evaluator::execute(const Body& body, Scope& scope, MarkedText& out) {
  const Budget::Level level(budget);
  for (const StatementPtr& node : body) {
    const Flow flow = execute(*node, scope, out);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

void Evaluator::emit(const Value& value, MarkedText& out) {
  if (value.is_text()) {
    budget.grow(value.text().footprint());
    out.append(value.text());
  } else if (!value.is_undefined()) {
    append_repr(budget, value, out);
  }
}

Evaluator::Flow Evaluator::execute(const Statement& node, Scope& scope, MarkedText& out) {
  budget.step();
  current_ = &node;
  switch (node.kind) {
  case StatementKind::text:
    budget.grow(node.text.size());
    out.append(node.text);
    return Flow::on;
  case StatementKind::output: emit(evaluate(*node.value, scope), out); return Flow::on;
  case StatementKind::branch:
    return execute(evaluate(*node.value, scope).truth() ? node.body : node.otherwise, scope, out);
  case StatementKind::loop: return run_loop(node, evaluate(*node.value, scope), scope, out, 0);
  case StatementKind::set:
  case StatementKind::set_block: run_set(node, scope); return Flow::on;
  case StatementKind::macro:
    scope.set(node.text, make_macro(node, scope, node.text));
    return Flow::on;
  case StatementKind::call_block: run_call_block(node, scope, out); return Flow::on;
  case StatementKind::filter_block: {
    Scope inner(&scope);
    const Value body(render(node.body, inner));
    emit(apply_filters(*node.filter, body, scope), out);
    return Flow::on;
  }
  case StatementKind::with: {
    Scope inner(&scope);
    for (size_t i = 0; i < node.targets.size(); ++i) {
      inner.set(node.targets[i], evaluate(*node.values[i], scope));
    }
    return execute(node.body, inner, out);
  }
  case StatementKind::generation: {
    MarkedText said;
    const Flow flow = execute(node.body, scope, said);
    said.mark_spoken();
    budget.grow(said.footprint());
    out.append(said);
    return flow;
  }
  case StatementKind::leave: return Flow::leave;
  case StatementKind::next: return Flow::next;
  }
  return Flow::on;
}

namespace {

// Assigns a value to one name, or its items to several names.
void unpack(Evaluator& evaluator, const std::vector<std::string>& names, Value value,
            Scope& scope) {
  if (names.size() == 1) return scope.set(names[0], std::move(value));
  const Items items = evaluator.items_of(value);
  if (items.size() != names.size()) {
    fail(Code::invalid_argument, "{} values for {} variables", items.size(), names.size());
  }
  for (size_t i = 0; i < names.size(); ++i) scope.set(names[i], items[i]);
}

} // namespace

void Evaluator::run_set(const Statement& node, Scope& scope) {
  Value value;
  if (node.kind == StatementKind::set_block) {
    Scope inner(&scope);
    value = Value(render(node.body, inner));
    if (node.filter != nullptr) value = apply_filters(*node.filter, value, scope);
  } else {
    value = evaluate(*node.value, scope);
  }
  if (node.attribute.empty()) return unpack(*this, node.targets, std::move(value), scope);
  const Value* target = scope.find(node.text);
  if (target == nullptr || !target->is(Type::space)) {
    fail(Code::invalid_argument, "{} is not a namespace, and only namespaces can be changed",
         node.text);
  }
  Value space = *target;
  space.set(node.attribute, std::move(value));
}

void Evaluator::run_call_block(const Statement& node, Scope& scope, MarkedText& out) {
  const Value callee = evaluate(*node.value->parts[0], scope);
  Arguments arguments = arguments_of(*node.value, scope);
  arguments.named.emplace_back("caller", make_macro(node, scope, "caller"));
  emit(call(callee, std::move(arguments)), out);
}

Evaluator::Flow Evaluator::run_loop(const Statement& node, const Value& over, Scope& scope,
                                    MarkedText& out, int depth) {
  Items items = items_of(over);
  if (node.test != nullptr) {
    Items chosen;
    for (Value& item : items) {
      Scope inner(&scope);
      unpack(*this, node.targets, item, inner);
      if (evaluate(*node.test, inner).truth()) chosen.push_back(std::move(item));
    }
    items = std::move(chosen);
  }
  const auto loop =
      std::make_shared<Loop>(std::move(items), depth, node.recursive ? &node : nullptr, &scope);
  // True after a round that ended without break or continue. Jinja2 runs `else` when no round did.
  bool ended = false;
  for (loop->index = 0; loop->index < loop->items.size(); ++loop->index) {
    budget.step();
    Scope inner(&scope);
    inner.set("loop", Value(std::shared_ptr<Function>(loop)));
    unpack(*this, node.targets, loop->items[loop->index], inner);
    const Flow flow = execute(node.body, inner, out);
    current_ = &node;
    ended = ended || flow == Flow::on;
    if (flow == Flow::leave) break;
  }
  return ended ? Flow::on : execute(node.otherwise, scope, out);
}

// Runs loop(...) of a recursive loop, which is the same loop over other items.
Value Loop::call(Evaluator& evaluator, Arguments& arguments) {
  if (statement_ == nullptr) fail(Code::invalid_argument, "the loop is not recursive");
  const Value* over = arguments.take(0, "iterable");
  if (over == nullptr) fail(Code::invalid_argument, "loop() needs something to loop over");
  arguments.done("loop");
  Scope inner(scope_);
  MarkedText out;
  evaluator.run_loop(*statement_, *over, inner, out, depth_ + 1);
  return Value(std::move(out));
}

} // namespace dllm::text::jinja
