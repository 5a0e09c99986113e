#pragma once
// Files that were compiled into the library: the manifest and the Lua modules of scripts/lib.

#include <cstddef>
#include <string_view>

namespace dllm::lua {

struct EmbeddedFile {
  const char* name;  // "manifest.json", "dllm.lua", "dllm/random.lua"
  const char* data;
  size_t size;
};

extern const EmbeddedFile kEmbeddedFiles[];
extern const size_t kEmbeddedFileCount;

// Empty when there is no such file.
std::string_view embedded_file(std::string_view name);

}  // namespace dllm::lua
