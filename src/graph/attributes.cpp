#include "graph/attributes.h"

#include <fmt/ranges.h>

namespace dllm::graph {
namespace {

const Attribute* find(const std::vector<std::pair<std::string, Attribute>>& entries,
                      std::string_view name) {
  for (const auto& [key, value] : entries) {
    if (key == name) return &value;
  }
  return nullptr;
}

struct Print {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<int64_t>& value) const {
    return fmt::format("[{}]", fmt::join(value, ", "));
  }
};

} // namespace

void Attributes::set(std::string name, Attribute value) {
  for (auto& [key, old] : entries_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::move(name), std::move(value));
}

bool Attributes::has(std::string_view name) const {
  return find(entries_, name) != nullptr;
}

template <class T> const T& Attributes::get(std::string_view name) const {
  const Attribute* found = find(entries_, name);
  const T* value = found != nullptr ? std::get_if<T>(found) : nullptr;
  if (value == nullptr) {
    fail(Code::internal, "attribute {} is {}", name,
         found == nullptr ? "missing" : "of another type");
  }
  return *value;
}

bool Attributes::flag(std::string_view name) const {
  return get<bool>(name);
}
int64_t Attributes::integer(std::string_view name) const {
  return get<int64_t>(name);
}
double Attributes::number(std::string_view name) const {
  return get<double>(name);
}
const std::string& Attributes::text(std::string_view name) const {
  return get<std::string>(name);
}
const std::vector<int64_t>& Attributes::list(std::string_view name) const {
  return get<std::vector<int64_t>>(name);
}

std::string Attributes::dump() const {
  std::string text;
  for (const auto& [key, value] : entries_) {
    if (!text.empty()) text += ' ';
    text += key + '=' + std::visit(Print{}, value);
  }
  return text;
}

} // namespace dllm::graph
