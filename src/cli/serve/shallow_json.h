#pragma once
// JSON that others send. Functions of the JSON library call themselves for each level, so deep
// documents are refused before they are read.

#include <nlohmann/json.hpp>

#include <string_view>

namespace dllm::cli {

// Returns whether a text has more than 64 levels of objects and lists.
bool is_deep(std::string_view json);

// Returns the document; a discarded value for a text that is not JSON or is_deep().
nlohmann::ordered_json parse_shallow(std::string_view json);

} // namespace dllm::cli
