#pragma once
// The variable `loop` of a for statement.

#include "text/jinja/ast.h"
#include "text/jinja/evaluator.h"

namespace dllm::text::jinja {

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
