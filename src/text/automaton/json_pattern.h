#pragma once
// Patterns of texts inside JSON, where some characters are escapes.

#include <string>
#include <string_view>

namespace dllm::text {

// Returns a pattern of what is between the quotes of a JSON text that has a part which matches
// `pattern`, as keyword pattern of JSON Schema means it. A character that needs an escape has one
// form, and others have none. any: the pattern of one character. Fails with invalid_argument naming
// the place of a fault.
std::string json_pattern(std::string_view pattern, std::string_view any);

} // namespace dllm::text
