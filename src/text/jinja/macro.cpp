#include "text/jinja/evaluator.h"

#include <algorithm>

namespace dllm::text::jinja {

namespace {

// Sees the variables around the place where it stands, at the time it is called.
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
