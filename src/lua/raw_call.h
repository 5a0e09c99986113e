#pragma once
// Every function of the C ABI as a Lua function, made from the manifest and libffi: no glue by hand.

#include <lua.h>

namespace dllm::lua {

// Pushes a table: function names without "dllm_" and constants without "DLLM_". A Lua function takes the parameters that
// are not derived, in order, and gives the results in order: value of the call, then outs. Failures raise. Options may be
// tables; a task that is not given is the one of the running call.
void push_raw(lua_State* L);

}  // namespace dllm::lua
