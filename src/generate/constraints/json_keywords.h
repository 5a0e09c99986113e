#pragma once
// The keywords of a JSON schema: which types they restrict, and what to try in place of those that
// have no pattern.

#include "base/json.h"

#include <string>
#include <string_view>
#include <vector>

namespace dllm::generate {

// Returns the keywords that restrict the values of a type; null: there is no such type.
const std::vector<std::string_view>* keywords_of_type(std::string_view type);

// Returns the types that a keyword restricts, without integer; empty: it restricts no type alone.
std::vector<std::string_view> types_of_keyword(std::string_view keyword);

// Returns whether a value is of a type. 3.0 is an integer.
bool is_of_type(const Json& value, std::string_view type);

// Returns whether two values are equal. The order of members in an object does not count.
bool is_same_value(const Json& a, const Json& b);

// Returns whether a keyword restricts nothing, or only what is never written.
bool is_annotation(std::string_view keyword);

// Fails with invalid_argument for a keyword that is not among `known` and restricts a value.
void check_keywords(const Json& schema, const std::vector<std::string_view>& known,
                    const std::string& where);

} // namespace dllm::generate
