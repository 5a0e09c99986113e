#pragma once
// Filters by name. Each file of filters_*.cpp has one table; filters.cpp looks through them.

#include "text/jinja/evaluator.h"

#include <span>

namespace dllm::text::jinja {

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
// A value whose truth an argument says, with a fallback.
bool flag(Arguments& arguments, size_t index, std::string_view name, bool fallback);

} // namespace dllm::text::jinja
