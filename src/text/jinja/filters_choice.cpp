// Filters that choose items or change each of them, and those about being there at all.

#include "text/jinja/filters.h"

namespace dllm::text::jinja {

namespace {

Value fallback(Evaluator&, const Value& input, Arguments& arguments) {
  const Value* value = arguments.take(0, "default_value");
  const bool also_false = flag(arguments, 1, "boolean", false);
  const bool missing = input.is_undefined() || (also_false && !input.truth());
  if (!missing) return input;
  return value != nullptr ? *value : Value(std::string());
}

Value attribute(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* name = arguments.take(0, "name");
  if (name == nullptr) fail(Code::invalid_argument, "attr needs a name");
  return e.attribute(input, need_text(*name, "an attribute's name").bytes());
}

// The arguments behind the first `count`: they belong to the test or filter that is named.
Arguments rest_of(Arguments& arguments, size_t count) {
  Arguments rest;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(*arguments.take(i, ""));
  }
  for (const auto& [name, value] : arguments.named) {
    rest.named.emplace_back(name, *arguments.take(SIZE_MAX, name));
  }
  return rest;
}

// select, reject: the test, or the item's own truth. With an attribute: that of the item.
template <bool kWanted, bool kByAttribute>
Value choose(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* path = kByAttribute ? arguments.take(0, "attribute") : nullptr;
  if (kByAttribute && path == nullptr) fail(Code::invalid_argument, "an attribute is missing");
  const size_t own = kByAttribute ? 1 : 0;
  const Value* test = arguments.take(own, "test");
  const Arguments rest = test != nullptr ? rest_of(arguments, own + 1) : Arguments{};
  Items chosen;
  for (const Value& item : e.items_of(input)) {
    const Value value = kByAttribute ? e.path(item, *path) : item;
    const bool holds = test != nullptr
                           ? e.test(need_text(*test, "a test's name").bytes(), value, rest)
                           : value.truth();
    if (holds == kWanted) chosen.push_back(item);
  }
  return Value::list(std::move(chosen));
}

Value map(Evaluator& e, const Value& input, Arguments& arguments) {
  Items items = e.items_of(input);
  if (const Value* path = arguments.take(SIZE_MAX, "attribute")) {
    const Value* missing = arguments.take(SIZE_MAX, "default");
    for (Value& item : items) {
      item = e.path(item, *path);
      if (item.is_undefined() && missing != nullptr) item = *missing;
    }
    return Value::list(std::move(items));
  }
  const Value* name = arguments.take(0, "filter");
  if (name == nullptr) fail(Code::invalid_argument, "map needs a filter or an attribute");
  const std::string& filter = need_text(*name, "a filter's name").bytes();
  const Arguments rest = rest_of(arguments, 1);
  for (Value& item : items) {
    item = e.filter(filter, item, rest);
    e.budget.grow(item.is_fresh() ? item.footprint() : 0);
  }
  return Value::list(std::move(items));
}

constexpr Filter kFilters[] = {
    {"default", fallback},
    {"d", fallback},
    {"attr", attribute},
    {"select", choose<true, false>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<false, true>},
    {"map", map},
};

} // namespace

std::span<const Filter> choice_filters() {
  return kFilters;
}

} // namespace dllm::text::jinja
