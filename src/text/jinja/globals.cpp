// This file has the functions of every template, the variable `loop` of a for statement, and
// macros.
#include "text/jinja/evaluator.h"

#include <locale.h>
#include <time.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>

namespace dllm::text::jinja {

namespace {

using Run = Value (*)(Evaluator&, Arguments&);

class Global final : public Function {
public:
  Global(std::string name, Run body) : name_(std::move(name)), body_(body) {}
  Value call(Evaluator& evaluator, Arguments& arguments) override {
    return body_(evaluator, arguments);
  }
  std::string describe() const override { return "<function " + name_ + ">"; }

private:
  std::string name_;
  Run body_;
};

// Returns "" at the first call and then the separator.
class Joiner final : public Function {
public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  Value call(Evaluator&, Arguments& arguments) override {
    arguments.done("joiner");
    return std::exchange(used_, true) ? separator_ : Value(std::string());
  }
  std::string describe() const override { return "<joiner>"; }

private:
  Value separator_;
  bool used_ = false;
};

Value range(Evaluator& evaluator, Arguments& arguments) {
  constexpr int64_t kMost = 100'000; // as the sandbox of the original has it
  int64_t bounds[3] = {0, 0, 1};
  const size_t given = arguments.positional.size();
  if (given < 1 || given > 3) fail(Code::invalid_argument, "range takes 1 to 3 numbers");
  for (size_t i = 0; i < given; ++i) {
    bounds[given == 1 ? 1 : i] = need_integer(*arguments.take(i, ""), "a bound of range");
  }
  arguments.done("range");
  const auto [begin, end, step] = bounds;
  if (step == 0) fail(Code::invalid_argument, "the step of range must not be 0");
  Items items;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (static_cast<int64_t>(items.size()) == kMost) {
      fail(Code::resource_exhausted, "range of more than {} numbers", kMost);
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return evaluator.list(std::move(items));
}

Entries entries_of(Evaluator& evaluator, Arguments& arguments, const char* who) {
  Entries entries;
  if (const Value* first = arguments.take(0, "")) {
    if (!first->is(Type::map)) fail(Code::invalid_argument, "{} takes a dict and names", who);
    entries = first->entries();
  }
  for (const auto& [name, value] : arguments.named) {
    const auto known =
        std::find_if(entries.begin(), entries.end(), [&, &name = name](const auto& entry) {
          return entry.first.is_text() && entry.first.bytes() == name;
        });
    if (known != entries.end()) {
      known->second = value;
    } else {
      entries.emplace_back(Value(name), value);
    }
  }
  evaluator.budget.grow(entries.size() * 2 * sizeof(Value));
  return entries;
}

Value make_namespace(Evaluator& evaluator, Arguments& arguments) {
  return Value::space(entries_of(evaluator, arguments, "namespace"));
}

Value make_dict(Evaluator& evaluator, Arguments& arguments) {
  return Value::map(entries_of(evaluator, arguments, "dict"));
}

Value make_joiner(Evaluator&, Arguments& arguments) {
  const Value* separator = arguments.take(0, "sep");
  arguments.done("joiner");
  return Value(std::shared_ptr<Function>(
      std::make_shared<Joiner>(separator != nullptr ? *separator : Value(std::string(", ")))));
}

Value raise_exception(Evaluator& evaluator, Arguments& arguments) {
  const Value* message = arguments.take(0, "message");
  fail(Code::invalid_argument, "{}",
       message != nullptr ? evaluator.text_of(*message).bytes().substr(0, 1000)
                          : std::string("the template refuses these messages"));
}

// Python's datetime.now() has no time zone, and its %f is microseconds.
std::string without_zone(std::string_view format, int64_t microseconds) {
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out.push_back(format[at]);
      continue;
    }
    const char what = format[++at];
    if (what == 'f')
      out += fmt::format("{:06}", microseconds);
    else if (what != 'Z' && what != 'z')
      out += {'%', what};
  }
  return out;
}

// Formats the current time by a format of strftime(3), in English in every locale of the host.
Value strftime_now(Evaluator&, Arguments& arguments) {
  const Value* given = arguments.take(0, "format");
  if (given == nullptr) fail(Code::invalid_argument, "strftime_now takes a format");
  const std::string format = need_text(*given, "format").bytes();
  arguments.done("strftime_now");
  static const locale_t english = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(nullptr));
  std::timespec now = {};
  std::timespec_get(&now, TIME_UTC);
  std::tm local = {};
  localtime_r(&now.tv_sec, &local);
  const std::string plain = without_zone(format, now.tv_nsec / 1000) + "|"; // never nothing
  constexpr size_t kMost = 1000;                                            // bytes
  char text[kMost];
  const size_t size = strftime_l(text, sizeof text, plain.c_str(), &local, english);
  if (size == 0) fail(Code::invalid_argument, "strftime_now: a date of more than {} bytes", kMost);
  return Value(std::string(text, size - 1));
}

// A function that returns the same text for all arguments.
class FixedText final : public Function {
public:
  explicit FixedText(std::string text) : text_(std::move(text)) {}
  Value call(Evaluator&, Arguments&) override { return Value(text_); }
  std::string describe() const override { return "<function>"; }

private:
  std::string text_;
};

} // namespace

Value fixed_text_function(std::string text) {
  return Value(std::shared_ptr<Function>(std::make_shared<FixedText>(std::move(text))));
}

const Value* find_global(std::string_view name) {
  static const std::map<std::string, Value, std::less<>> table = [] {
    std::map<std::string, Value, std::less<>> made;
    const std::pair<const char*, Run> rows[] = {{"range", range},
                                                {"namespace", make_namespace},
                                                {"dict", make_dict},
                                                {"joiner", make_joiner},
                                                {"raise_exception", raise_exception},
                                                {"strftime_now", strftime_now}};
    for (const auto& [key, body] : rows) {
      made.emplace(key, Value(std::shared_ptr<Function>(std::make_shared<Global>(key, body))));
    }
    return made;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

// loop.cycle('odd', 'even')
class Loop::Cycle final : public Function {
public:
  explicit Cycle(size_t index) : index_(index) {}
  Value call(Evaluator&, Arguments& arguments) override {
    const Items& choices = arguments.positional;
    if (choices.empty()) fail(Code::invalid_argument, "loop.cycle needs values");
    return choices[index_ % choices.size()];
  }
  std::string describe() const override { return "<function cycle>"; }

private:
  size_t index_;
};

// loop.changed(x) returns true when x differs from the x of the last call.
class Loop::Changed final : public Function {
public:
  Value call(Evaluator& evaluator, Arguments& arguments) override {
    Value now = evaluator.list(arguments.positional);
    const bool same = last_.has_value() && equal(evaluator.budget, *last_, now);
    if (!same && now.is_plain()) last_ = std::move(now);
    return Value(!same);
  }
  std::string describe() const override { return "<function changed>"; }

private:
  std::optional<Value> last_;
};

Value Loop::attribute(std::string_view name) const {
  const auto count = static_cast<int64_t>(items.size());
  const auto at = static_cast<int64_t>(index);
  if (name == "index") return Value(at + 1);
  if (name == "index0") return Value(at);
  if (name == "revindex") return Value(count - at);
  if (name == "revindex0") return Value(count - at - 1);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 == count);
  if (name == "length") return Value(count);
  if (name == "depth") return Value(int64_t{depth_ + 1});
  if (name == "depth0") return Value(int64_t{depth_});
  if (name == "previtem" && index > 0) return items[index - 1];
  if (name == "nextitem" && index + 1 < items.size()) return items[index + 1];
  if (name == "cycle") return Value(std::shared_ptr<Function>(std::make_shared<Cycle>(index)));
  if (name == "changed") {
    if (changed_ == nullptr) changed_ = std::make_shared<Changed>();
    return Value(changed_);
  }
  return Value::undefined("loop." + std::string(name));
}

namespace {

// A macro. It reads the variables of the scope of its definition at the time of the call.
class Macro final : public Function {
public:
  Macro(const Statement& node, const Scope& scope, std::string name)
      : node_(node), scope_(scope), name_(std::move(name)) {}

  Value call(Evaluator& evaluator, Arguments& arguments) override {
    Scope inner(&scope_);
    inner.set("caller", Value::undefined("caller"));
    bind(evaluator, arguments, inner);
    return Value(evaluator.render(node_.body, inner));
  }

  std::string describe() const override { return fmt::format("<Macro '{}'>", name_); }

private:
  void bind(Evaluator& evaluator, Arguments& arguments, Scope& inner) {
    for (size_t i = 0; i < node_.parameters.size(); ++i) {
      const Parameter& parameter = node_.parameters[i];
      const Value* given = arguments.take(i, parameter.name);
      if (given != nullptr) {
        inner.set(parameter.name, *given);
      } else {
        inner.set(parameter.name, parameter.fallback != nullptr
                                      ? evaluator.evaluate(*parameter.fallback, inner)
                                      : Value::undefined(parameter.name));
      }
    }
    Items rest;
    for (size_t i = node_.parameters.size(); i < arguments.positional.size(); ++i) {
      rest.push_back(arguments.positional[i]);
    }
    Entries named;
    for (const auto& [name, value] : arguments.named) {
      const bool known =
          std::any_of(node_.parameters.begin(), node_.parameters.end(),
                      [&, &name = name](const Parameter& p) { return p.name == name; });
      if (known) continue;
      if (name == "caller") {
        inner.set(name, value);
      } else {
        named.emplace_back(Value(name), value);
      }
    }
    inner.set("varargs", Value::tuple(std::move(rest)));
    inner.set("kwargs", Value::map(std::move(named)));
  }

  const Statement& node_;
  const Scope& scope_;
  std::string name_;
};

} // namespace

Value make_macro(const Statement& node, const Scope& scope, std::string name) {
  return Value(std::shared_ptr<Function>(std::make_shared<Macro>(node, scope, std::move(name))));
}

} // namespace dllm::text::jinja
