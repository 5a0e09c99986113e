#pragma once
// The keys of options that the library's schemas put into one group.

#include <nlohmann/json.hpp>

#include <string>

namespace dllm::cli {

// Returns the rows of the schema of kind "request" in a group: "draw", "constraint".
nlohmann::ordered_json request_keys(const std::string& group);

} // namespace dllm::cli
