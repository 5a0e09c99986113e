#include "text/jinja/filters.h"

#include "base/error.h"

namespace dllm::text::jinja {

namespace {

const Filter* find_filter(const std::string& name) {
  for (const auto& table : {text_filters(), list_filters(), choice_filters(), number_filters()}) {
    for (const Filter& filter : table) {
      if (name == filter.name) return &filter;
    }
  }
  return nullptr;
}

std::string nearest_filter(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& table : {text_filters(), list_filters(), choice_filters(), number_filters()}) {
    for (const Filter& filter : table) names.emplace_back(filter.name);
  }
  return nearest(name, names);
}

} // namespace

Value Evaluator::filter(const std::string& name, const Value& input, Arguments arguments) {
  const Filter* found = find_filter(name);
  if (found == nullptr) {
    const std::string near = nearest_filter(name);
    fail_with_hint(near.empty() ? "" : fmt::format("did you mean {}?", near), Code::unimplemented,
                   "there is no filter {}", name);
  }
  const Budget::Level level(budget);
  Value made = found->run(*this, input, arguments);
  arguments.done("filter " + name);
  return made;
}

bool flag(Arguments& arguments, size_t index, std::string_view name, bool fallback) {
  const Value* given = arguments.take(index, name);
  return given != nullptr ? given->truth() : fallback;
}

} // namespace dllm::text::jinja
