#pragma once
// JSON values and the one way to parse untrusted JSON. Include <nlohmann/json.hpp> only where values are touched.

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace dllm {

using Json = nlohmann::ordered_json; // keeps the order of keys, so files and dumps are stable

// Parses one JSON document. `what` names it in errors ("config.json"). Refuses nesting deeper than 64 and repeated
// keys. Linear in the size of the text. Fails with Code::data_loss and the byte offset.
Json parse_json(std::string_view text, std::string_view what);

} // namespace dllm
