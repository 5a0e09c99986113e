#pragma once
// What hangs on a Lua state: the running task, parked errors, the heap's limit.

#include "dllm/dllm.h"

#include <cstddef>
#include <cstdint>
#include <lua.h>

namespace dllm::lua {

struct Shared {
  dllm_task* task = nullptr;     // of the call under way; may be null
  int64_t heap = 0, limit = 0;   // bytes
  bool over_limit = false;
  dllm_error* error = nullptr;   // reused by every raw call
};

Shared& shared(lua_State* L);

// Raises {code, message, hint}: a table that prints itself.
[[noreturn]] void raise(lua_State* L, const char* code, const char* message, const char* hint);
// Pushes the same table.
void push_error(lua_State* L, const char* code, const char* message, const char* hint);

}  // namespace dllm::lua
