// This file has the filters of lists and dicts.

#include "text/jinja/evaluator.h"
#include "text/jinja/template.h"

#include <algorithm>
#include <numeric>

namespace dllm::text::jinja {

namespace {

const Entries& need_entries(const Value& value, const char* who) {
  if (!value.is(Type::map)) {
    fail(Code::invalid_argument, "{} takes a dict, not a {}", who, value.type_name());
  }
  return value.entries();
}

// Returns the values by which items are compared: the items, or their attribute.
Items keys_of(Evaluator& e, const Items& items, const Value* attribute, bool case_sensitive) {
  Items keys;
  for (const Value& item : items) {
    const bool whole = attribute == nullptr || attribute->is_none();
    keys.push_back(sort_key(e, whole ? item : e.path(item, *attribute), case_sensitive));
  }
  return keys;
}

Value length(Evaluator& e, const Value& input, Arguments&) {
  if (input.is_undefined()) return Value(int64_t{0});
  if (input.is_text())
    return Value(static_cast<int64_t>(Characters(e.budget, input.text()).count()));
  if (input.is_sequence()) return Value(static_cast<int64_t>(input.items().size()));
  return Value(static_cast<int64_t>(need_entries(input, "length").size()));
}

Value first(Evaluator& e, const Value& input, Arguments&) {
  const Items items = e.items_of(input);
  return items.empty() ? Value::undefined("first needs a list with an item") : items.front();
}
Value last(Evaluator& e, const Value& input, Arguments&) {
  const Items items = e.items_of(input);
  return items.empty() ? Value::undefined("last needs a list with an item") : items.back();
}
Value to_list(Evaluator& e, const Value& input, Arguments&) {
  return Value::list(e.items_of(input));
}

Value join_items(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* separator = arguments.take(0, "d");
  const Value* attribute = arguments.take(1, "attribute");
  Items items = e.items_of(input);
  if (attribute != nullptr && !attribute->is_none()) {
    for (Value& item : items) item = e.path(item, *attribute);
  }
  return Value(join(e, items, separator != nullptr ? e.text_of(*separator) : MarkedText()));
}

Value reverse(Evaluator& e, const Value& input, Arguments&) {
  Items items = e.items_of(input);
  std::reverse(items.begin(), items.end());
  return input.is_text() ? Value(join(e, items, {})) : Value::list(std::move(items));
}

Value sort(Evaluator& e, const Value& input, Arguments& arguments) {
  const bool reversed = flag(arguments, 0, "reverse", false);
  const bool case_sensitive = flag(arguments, 1, "case_sensitive", false);
  const Value* attribute = arguments.take(2, "attribute");
  const Items items = e.items_of(input);
  return Value::list(sort_items(e, items, keys_of(e, items, attribute, case_sensitive), reversed));
}

Value unique(Evaluator& e, const Value& input, Arguments& arguments) {
  const bool case_sensitive = flag(arguments, 0, "case_sensitive", false);
  const Value* attribute = arguments.take(1, "attribute");
  const Items items = e.items_of(input);
  const Items keys = keys_of(e, items, attribute, case_sensitive);
  Items chosen, seen;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto same = [&](const Value& key) { return equal(e.budget, key, keys[i]); };
    if (std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(keys[i]);
    chosen.push_back(items[i]);
  }
  return Value::list(std::move(chosen));
}

template <int kSign> Value extreme(Evaluator& e, const Value& input, Arguments& arguments) {
  const bool case_sensitive = flag(arguments, 0, "case_sensitive", false);
  const Value* attribute = arguments.take(1, "attribute");
  const Items items = e.items_of(input);
  const Items keys = keys_of(e, items, attribute, case_sensitive);
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (kSign * compare(e.budget, keys[i], keys[best]) > 0) best = i;
  }
  return items.empty() ? Value::undefined("min and max need a list with an item") : items[best];
}

Value sum(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* attribute = arguments.take(0, "attribute");
  const Value* start = arguments.take(1, "start");
  Value total = start != nullptr ? *start : Value(int64_t{0});
  for (const Value& item : e.items_of(input)) {
    const bool whole = attribute == nullptr || attribute->is_none();
    total = apply_binary(e, "+", total, whole ? item : e.path(item, *attribute));
  }
  return total;
}

Value items(Evaluator& e, const Value& input, Arguments&) {
  Items pairs;
  if (input.is_undefined()) return Value::list({});
  for (const auto& [key, value] : need_entries(input, "items")) {
    pairs.push_back(Value::tuple({key, value}));
  }
  e.budget.grow(pairs.size() * 128);
  return e.list(std::move(pairs));
}

Value dict_sort(Evaluator& e, const Value& input, Arguments& arguments) {
  const bool case_sensitive = flag(arguments, 0, "case_sensitive", false);
  const Value* by = arguments.take(1, "by");
  const bool reversed = flag(arguments, 2, "reverse", false);
  const bool by_value = by != nullptr && need_text(*by, "by").bytes() == "value";
  Items pairs, keys;
  for (const auto& [key, value] : need_entries(input, "dictsort")) {
    pairs.push_back(Value::tuple({key, value}));
    keys.push_back(sort_key(e, by_value ? value : key, case_sensitive));
  }
  e.budget.grow(pairs.size() * 128);
  return Value::list(sort_items(e, pairs, keys, reversed));
}

Value group_by(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* attribute = arguments.take(0, "attribute");
  const Value* fallback = arguments.take(1, "default");
  const bool case_sensitive = flag(arguments, 2, "case_sensitive", false);
  if (attribute == nullptr) fail(Code::invalid_argument, "groupby needs an attribute");
  const Items items = e.items_of(input);
  Items values, keys, order;
  for (size_t i = 0; i < items.size(); ++i) {
    Value value = e.path(items[i], *attribute);
    if (value.is_undefined() && fallback != nullptr) value = *fallback;
    keys.push_back(sort_key(e, value, case_sensitive));
    values.push_back(std::move(value));
    order.emplace_back(static_cast<int64_t>(i));
  }
  Items groups;
  const Items sorted = sort_items(e, order, keys, false);
  for (size_t at = 0; at < sorted.size();) {
    const auto begin = static_cast<size_t>(sorted[at].integer());
    Items group;
    for (; at < sorted.size(); ++at) {
      const auto index = static_cast<size_t>(sorted[at].integer());
      if (!equal(e.budget, keys[index], keys[begin])) break;
      group.push_back(items[index]);
    }
    groups.push_back(Value::group(values[begin], e.list(std::move(group))));
  }
  return e.list(std::move(groups));
}

Value batch(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* given = arguments.take(0, "linecount");
  const Value* fill = arguments.take(1, "fill_with");
  const int64_t count = given != nullptr ? need_integer(*given, "linecount") : 0;
  if (count < 1) fail(Code::invalid_argument, "batch needs 1 or more items in a line");
  Items lines, line;
  for (const Value& item : e.items_of(input)) {
    line.push_back(item);
    if (static_cast<int64_t>(line.size()) == count) {
      lines.push_back(Value::list(std::exchange(line, {})));
    }
  }
  while (fill != nullptr && !line.empty() && static_cast<int64_t>(line.size()) < count) {
    e.budget.step();
    e.budget.grow(sizeof(Value));
    line.push_back(*fill);
  }
  if (!line.empty()) lines.push_back(Value::list(std::move(line)));
  return e.list(std::move(lines));
}

// Makes `count` lists of nearly equal length.
Value slices(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* given = arguments.take(0, "slices");
  const Value* fill = arguments.take(1, "fill_with");
  const int64_t count = given != nullptr ? need_integer(*given, "slices") : 0;
  if (count < 1) fail(Code::invalid_argument, "slice needs 1 or more lists");
  const Items items = e.items_of(input);
  const auto size = static_cast<int64_t>(items.size());
  Items made;
  for (int64_t i = 0, at = 0; i < count; ++i) {
    e.budget.step();
    e.budget.grow(128);
    const int64_t take = size / count + (i < size % count ? 1 : 0);
    Items part(items.begin() + at, items.begin() + at + take);
    if (fill != nullptr && i >= size % count && size % count != 0) part.push_back(*fill);
    made.push_back(Value::list(std::move(part)));
    at += take;
  }
  return Value::list(std::move(made));
}

constexpr Filter kFilters[] = {
    {"length", length}, {"count", length},       {"first", first},      {"last", last},
    {"list", to_list},  {"join", join_items},    {"reverse", reverse},  {"sort", sort},
    {"unique", unique}, {"max", extreme<1>},     {"min", extreme<-1>},  {"sum", sum},
    {"items", items},   {"dictsort", dict_sort}, {"groupby", group_by}, {"batch", batch},
    {"slice", slices},
};

} // namespace

Value sort_key(Evaluator& evaluator, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_text()) return value;
  return Value(change_case(evaluator, value.text(), Case::lower));
}

Items sort_items(Evaluator& evaluator, const Items& items, const Items& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int sign = compare(evaluator.budget, keys[a], keys[b]);
    return reverse ? sign > 0 : sign < 0;
  });
  Items sorted;
  for (const size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

std::span<const Filter> list_filters() {
  return kFilters;
}

} // namespace dllm::text::jinja
