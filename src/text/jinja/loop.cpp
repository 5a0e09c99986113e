#include "text/jinja/loop.h"

#include <optional>

namespace dllm::text::jinja {

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

// loop.changed(x): true when x is not what it was the last time.
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

} // namespace dllm::text::jinja
