#pragma once
// An Evaluator runs a parsed template once. This header also declares its filters and functions.

#include "text/jinja/parser.h"
#include "text/jinja/template.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::text::jinja {

// The arguments of a call. A function takes its parameters one by one and then calls done().
struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;

  // Returns positional argument `index`, else argument `name`, else null.
  const Value* take(size_t index, std::string_view name);
  // Fails with invalid_argument when the call has arguments that function `who` did not take.
  void done(std::string_view who) const;

private:
  size_t taken_ = 0;
  std::vector<std::string> used_;
};

// Variables by name; find() also searches the enclosing scopes. Scopes live on the stack. Macros
// and loops point to a scope and cannot outlive it, because a namespace holds only plain values.
class Scope {
public:
  explicit Scope(const Scope* parent) : parent_(parent) {}
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);

private:
  const Scope* parent_;
  std::vector<std::pair<std::string, Value>> variables_;
};

class Evaluator {
public:
  explicit Evaluator(const Limits& limits) : budget(limits) {}

  MarkedText run(const Body& body, const Entries& variables);
  // Returns the tag that is running, for errors.
  const Statement* current() const { return current_; }

  Value evaluate(const Expression& node, const Scope& scope);
  MarkedText render(const Body& body, Scope& scope);

  Value call(const Value& callee, Arguments arguments);
  Value attribute(const Value& of, const std::string& name);
  Value item(const Value& of, const Value& key);
  // Returns the value at a path like "a.b.0", which filters take as map(attribute=...).
  Value path(const Value& of, const Value& name);
  Value filter(const std::string& name, const Value& input, Arguments arguments);
  bool test(const std::string& name, const Value& input, Arguments arguments);
  // Returns the items over which a loop runs. Fails with invalid_argument for a value that cannot
  // be iterated.
  Items items_of(const Value& value);
  MarkedText text_of(const Value& value) { return to_text(budget, value); }
  // Makes a list and charges its size to the budget.
  Value list(Items items);

  Budget budget;

private:
  friend class Loop;
  enum class Flow { on, leave, next };
  struct Runner;

  Flow execute(const Body& body, Scope& scope, MarkedText& out);
  Flow execute(const Statement& node, Scope& scope, MarkedText& out);
  Flow run_loop(const Statement& node, const Value& over, Scope& scope, MarkedText& out, int depth);
  void run_set(const Statement& node, Scope& scope);
  void run_call_block(const Statement& node, Scope& scope, MarkedText& out);
  Value apply_filters(const Expression& node, const Value& input, const Scope& scope);
  void emit(const Value& value, MarkedText& out);

  Value compute(const Expression& node, const Scope& scope);
  Arguments arguments_of(const Expression& node, const Scope& scope);
  Value slice(const Expression& node, const Scope& scope);
  Value compare_chain(const Expression& node, const Scope& scope);
  Value map_of(const Expression& node, const Scope& scope);

  const Statement* current_ = nullptr;
};

// operators.cpp
Value apply_binary(Evaluator& evaluator, const std::string& sign, const Value& left,
                   const Value& right);
Value apply_unary(const std::string& sign, const Value& value);
bool contains(Evaluator& evaluator, const Value& item, const Value& in);
// Returns a method of a text, list or dict as a function, or undefined (methods.cpp).
Value find_method(const Value& of, const std::string& name);
// Returns range, namespace, dict, joiner, raise_exception or strftime_now, or null (globals.cpp).
const Value* find_global(std::string_view name);
// Makes a macro, or the caller() of a call block.
Value make_macro(const Statement& node, const Scope& scope, std::string name);
// json.cpp
MarkedText to_json(Budget& budget, const Value& value, Arguments& arguments);
// "%s" % values, and "{}".format(values) (format.cpp).
MarkedText format_percent(Evaluator& evaluator, const MarkedText& format, const Value& values);
MarkedText format_braces(Evaluator& evaluator, const MarkedText& format, Arguments& arguments);

// These functions return the value of an argument `what`, and fail when it has another type.
int64_t need_integer(const Value& value, std::string_view what);
const MarkedText& need_text(const Value& value, std::string_view what);

// A filter and its name. filters.cpp searches the tables of all files filters*.cpp.
struct Filter {
  const char* name;
  Value (*run)(Evaluator&, const Value& input, Arguments&);
};

std::span<const Filter> text_filters();
std::span<const Filter> list_filters();
std::span<const Filter> choice_filters();
std::span<const Filter> number_filters();

// The functions below serve filters and methods.

// Removes white space, or `characters`, from the ends.
MarkedText strip(const MarkedText& text, const Value* characters, bool left, bool right);
MarkedText replace(Evaluator& evaluator, const MarkedText& text, const MarkedText& from,
                   const MarkedText& to, int64_t most);
enum class Case { upper, lower, title, capitalize };
MarkedText change_case(Evaluator& evaluator, const MarkedText& text, Case to);
MarkedText join(Evaluator& evaluator, const Items& items, const MarkedText& separator);
// Returns the items in the order of their keys; equal keys keep their order.
Items sort_items(Evaluator& evaluator, const Items& items, const Items& keys, bool reverse);
// Returns a text in lower case unless case_sensitive, and other values unchanged.
Value sort_key(Evaluator& evaluator, const Value& value, bool case_sensitive);
// Returns the truth of an argument, or the fallback when it is absent.
bool flag(Arguments& arguments, size_t index, std::string_view name, bool fallback);

// The variable `loop` of a for statement.
class Loop final : public Function {
public:
  // statement: the loop to run again in loop(items), or null when the loop is not recursive.
  Loop(Items over, int depth, const Statement* statement, const Scope* scope)
      : items(std::move(over)), depth_(depth), statement_(statement), scope_(scope) {}

  Value call(Evaluator& evaluator, Arguments& arguments) override;
  std::string describe() const override { return "<loop>"; }
  Value attribute(std::string_view name) const override;

  Items items;
  size_t index = 0;

private:
  class Cycle;
  class Changed;
  int depth_;
  const Statement* statement_;
  const Scope* scope_;
  mutable std::shared_ptr<Function> changed_; // loop.changed, which stores its last argument
};

} // namespace dllm::text::jinja
