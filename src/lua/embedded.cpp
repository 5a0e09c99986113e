#include "lua/embedded.h"

namespace dllm::lua {

std::string_view embedded_file(std::string_view name) {
  for (size_t i = 0; i < kEmbeddedFileCount; ++i) {
    if (name == kEmbeddedFiles[i].name) return {kEmbeddedFiles[i].data, kEmbeddedFiles[i].size};
  }
  return {};
}

}  // namespace dllm::lua
