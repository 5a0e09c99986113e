#pragma once
// Names the JSON type and the one function that parses untrusted JSON. Include <nlohmann/json.hpp>
// only in files that use values.

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace dllm {

using Json = nlohmann::ordered_json; // keeps the order of keys, so files and dumps are stable

// Parses one JSON document in time linear in its size. Fails with data_loss, naming `what`
// ("config.json") and the byte offset. Refuses nesting deeper than 64 and repeated keys.
Json parse_json(std::string_view text, std::string_view what);
// Does the same for the value of an option, and fails with invalid_argument.
Json parse_json_option(std::string_view text, std::string_view key);

} // namespace dllm
