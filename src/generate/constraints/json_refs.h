#pragma once
// The schemas that $ref names in a JSON schema: by a JSON pointer, or by an anchor.

#include "base/json.h"

#include <string>

namespace dllm::generate {

// Returns the text of $ref. Fails with invalid_argument for one that names another document.
std::string target_of_ref(const Json& schema, const std::string& where);

// Returns the part of `root` that such a text names. Fails with invalid_argument if there is none.
const Json& schema_at(const Json& root, const std::string& target, const std::string& where);

} // namespace dllm::generate
