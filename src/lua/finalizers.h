#pragma once
// Finalizers (__gc) of a script's tables. Lua runs them without hooks, so an endless one could not be stopped; here
// they run in a coroutine of their own, with hooks and the script's budget, and during a script's call alone: not while a
// host sets a global, nor when the runner is released.

#include <lua.h>

namespace dllm::lua {

// setmetatable(table, metatable or nil), as Lua's.
int set_metatable(lua_State* L);

}  // namespace dllm::lua
