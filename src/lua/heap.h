#pragma once
// The allocator of a Lua state: counts bytes against the limit that script and library objects share.

#include <cstddef>

namespace dllm::lua {

// Below level full a text, and any other block, is no larger than this: one instruction that copies or
// compares it then ends in milliseconds.
inline constexpr size_t kMostText = size_t{32} << 20;
inline constexpr size_t kMostBlock = size_t{128} << 20;

// A lua_Alloc; data is the Shared of the state.
void* allocate(void* data, void* block, size_t old_size, size_t new_size);

}  // namespace dllm::lua
