#pragma once
// Values in the form of plugins: named ones (attributes, properties, options) and element types of arrays.

#include "pjrt/abi/base.h"
#include "tensor/dtype.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dllm::pjrt {

// Named values that plugins give (attributes, properties) and take (options).

using NamedValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue, std::less<>>;

// Copies of a plugin's values. Unknown types are left out.
NamedValues read_named_values(const abi::NamedValue* values, size_t count);

// Views of the values in the form of a plugin. REQUIRES: `values` outlives the result and does not
// change.
std::vector<abi::NamedValue> named_value_views(const NamedValues& values);

// Null when there is no such value or it has another type.
template <class T> const T* find_value(const NamedValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? nullptr : std::get_if<T>(&found->second);
}

// "4" "true" "[0, 1, 0]" as in a log
std::string value_text(const NamedValue& value);

// Options of a plugin's client from name=value texts. A known option of a wrong type aborts older
// plugins and an unknown one is ignored by them, so names and types are checked here.

// "cpu_device_count=8", "visible_devices=0:1" (a list), or with a type for names this library does
// not know: "name:i64=8", of string, i64, list, f32, bool. Fails with not_found for an unknown name
// without a type, with invalid_argument for a value that is not of its type.
NamedValues parse_client_options(const std::vector<std::string>& texts);

// Element types of arrays as plugins number them.

abi::BufferType buffer_type(DType dtype);
DType dtype_of(
    abi::BufferType type); // fails with unimplemented for types that arrays here cannot have

} // namespace dllm::pjrt
