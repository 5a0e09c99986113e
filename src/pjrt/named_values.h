#pragma once
// Named values as plugins hand them out (attributes, properties) and take them in (options).

#include "pjrt/abi/base.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dllm::pjrt {

using NamedValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue, std::less<>>;

// Copies what a plugin lends. Types that are not known are left out.
NamedValues read_named_values(const abi::NamedValue* values, size_t count);

// The same values as a plugin wants them. REQUIRES: `values` outlives the result and does not
// change.
std::vector<abi::NamedValue> lend_named_values(const NamedValues& values);

// Null when there is no such value or it has another type.
template <class T> const T* find_value(const NamedValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? nullptr : std::get_if<T>(&found->second);
}

// "4" "true" "[0, 1, 0]" as in a log
std::string value_text(const NamedValue& value);

} // namespace dllm::pjrt
