#pragma once
// Patterns of texts inside JSON, where some characters are escapes.

#include <string>
#include <string_view>

namespace dllm::text {

// Returns the pattern of a JSON text of which some part matches `pattern`, as keyword pattern of
// JSON Schema means it. The pattern has no quotes around it. A character that needs an escape has
// one form, and others have none. any: the pattern of one character. Fails with invalid_argument
// naming the place of a fault.
std::string json_pattern(std::string_view pattern, std::string_view any);

} // namespace dllm::text
