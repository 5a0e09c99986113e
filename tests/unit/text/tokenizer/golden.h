#pragma once
// Where the numbers made by other people's code are, and reading them.

#include "text/json_reader.h"

#include "base/files.h"

#include <cstdlib>
#include <string>

namespace dllm::text {

inline std::string golden_path(const std::string& name) {
  const char* set = std::getenv("DLLM_GOLDEN");
  return join_path(set != nullptr ? set : std::string(DLLM_SOURCE_DIR) + "/../shared/golden", name);
}

inline std::string asset_path(const std::string& name) {
  const char* set = std::getenv("DLLM_ASSETS");
  return join_path(set != nullptr ? set : std::string(DLLM_SOURCE_DIR) + "/build/assets", name);
}

inline TreeJson read_json(const std::string& path) {
  return parse_tree(read_text(path), path);
}

} // namespace dllm::text
