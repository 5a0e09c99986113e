#pragma once
// Two JSON schemas as one (keyword allOf, and keywords next to anyOf or $ref), and what the schemas
// of oneOf have apart.

#include "base/json.h"

#include <optional>
#include <string>
#include <vector>

namespace dllm::generate {

// Returns the types that a schema allows, "number" in place of "integer", by type, const or enum.
// Empty: any type.
std::vector<std::string> types_of_schema(const Json& schema);
// Returns the types of the values that are written: without those three, by the keywords of a type.
std::vector<std::string> written_types(const Json& schema);

// Returns the schema of the values that both schemas allow; nothing: there are none. Neither has
// $ref or allOf. Fails with invalid_argument naming `where` for keywords that have no common form.
std::optional<Json> merged_schemas(const Json& one, const Json& other, const std::string& where);

// Returns what keeps the values of schemas apart: the name of a member whose values differ in all
// objects that have it; "": their types do. Nothing: a value may be of two schemas. No schema has
// $ref or allOf.
std::optional<std::string> member_that_differs(const std::vector<Json>& schemas);

} // namespace dllm::generate
