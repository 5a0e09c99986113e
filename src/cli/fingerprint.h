#pragma once
// Notices files whose content has changed.

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace dllm::cli {

// Returns JSON with the number, the bytes and a checksum of the files of a path. Returns null for a
// mixture and for other data that is not a path. The checksum is of the names and of the content;
// of files beyond 256 MiB in total it has 256 blocks each.
std::string fingerprint_of(const std::string& data);
// Returns the checksum alone; null for what is not a path.
nlohmann::ordered_json checksum_of(const std::string& path);

} // namespace dllm::cli
