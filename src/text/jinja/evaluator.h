#pragma once
// Runs a parsed template. One evaluator is one rendering.

#include "text/jinja/parser.h"
#include "text/jinja/template.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::text::jinja {

// The arguments of a call. A function takes those it has; done() refuses the rest.
struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;

  // By place or by name, null when neither is given.
  const Value* take(size_t index, std::string_view name);
  // Fails with invalid_argument when `who` was given more than it took.
  void done(std::string_view who) const;

private:
  size_t taken_ = 0;
  std::vector<std::string> used_;
};

// Variables by name; looks into the scopes around it. Scopes live on the stack, and nothing that
// refers to one (macros, loops) can get out of it: a namespace holds plain values only.
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
  // The tag that is being run, for errors.
  const Statement* current() const { return current_; }

  Value evaluate(const Expression& node, const Scope& scope);
  MarkedText render(const Body& body, Scope& scope);

  Value call(const Value& callee, Arguments arguments);
  Value attribute(const Value& of, const std::string& name);
  Value item(const Value& of, const Value& key);
  // "a.b.0" as filters like map(attribute=...) take it.
  Value path(const Value& of, const Value& name);
  Value filter(const std::string& name, const Value& input, Arguments arguments);
  bool test(const std::string& name, const Value& input, Arguments arguments);
  // What a loop runs over; fails with invalid_argument for a value that cannot be iterated.
  Items items_of(const Value& value);
  MarkedText text_of(const Value& value) { return to_text(budget, value); }
  // A new list, its size counted.
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
// methods.cpp: a method of a text, list or dict as a function; undefined when there is none.
Value find_method(const Value& of, const std::string& name);
// globals.cpp: range, namespace, dict, joiner, raise_exception.
const Value* find_global(std::string_view name);
// A macro, or the caller() of a call block.
Value make_macro(const Statement& node, const Scope& scope, std::string name);
// json.cpp
MarkedText to_json(Budget& budget, const Value& value, Arguments& arguments);
// format.cpp: "%s" % values, and "{}".format(values).
MarkedText format_percent(Evaluator& evaluator, const MarkedText& format, const Value& values);
MarkedText format_braces(Evaluator& evaluator, const MarkedText& format, Arguments& arguments);

// A whole number an argument must be.
int64_t need_integer(const Value& value, std::string_view what);
const MarkedText& need_text(const Value& value, std::string_view what);

// Filters by name. Each file of filters_*.cpp has one table; filters.cpp looks through them.

struct Filter {
  const char* name;
  Value (*run)(Evaluator&, const Value& input, Arguments&);
};

std::span<const Filter> text_filters();
std::span<const Filter> list_filters();
std::span<const Filter> choice_filters();
std::span<const Filter> number_filters();

// Shared: white space off both ends, or the characters given.
MarkedText strip(const MarkedText& text, const Value* characters, bool left, bool right);
MarkedText replace(Evaluator& evaluator, const MarkedText& text, const MarkedText& from,
                   const MarkedText& to, int64_t most);
enum class Case { upper, lower, title, capitalize };
MarkedText change_case(Evaluator& evaluator, const MarkedText& text, Case to);
MarkedText join(Evaluator& evaluator, const Items& items, const MarkedText& separator);
// Items in order; stable. key: what is compared.
Items sort_items(Evaluator& evaluator, const Items& items, const Items& keys, bool reverse);
// Texts in lower case unless case_sensitive, everything else as it is.
Value sort_key(Evaluator& evaluator, const Value& value, bool case_sensitive);
// The truth of an argument, or the fallback when it is not given.
bool flag(Arguments& arguments, size_t index, std::string_view name, bool fallback);

// The variable `loop` of a for statement.

class Loop final : public Function {
public:
  // statement: null unless the loop is recursive.
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
  mutable std::shared_ptr<Function> changed_; // remembers what it saw last
};

} // namespace dllm::text::jinja
