#pragma once
// Own versions of the functions of Lua that catch errors or start a coroutine. They do what Lua's do, and pass the
// end of a stopped call on.

#include <lua.h>

#include <cstddef>

namespace dllm::lua {

// Replaces the global functions pcall, xpcall, load, setmetatable and the coroutine functions resume, wrap, close.
void open_control(lua_State* L);

// lua_load of a text in pieces, so that a long one can be stopped. Pushes the function; raises what is wrong.
void load_text(lua_State* L, const char* text, size_t size, const char* name);

// Runs what lies on `co` (a function and its arguments); the coroutine is the running one meanwhile.
int resume(lua_State* L, lua_State* co, int arguments, int* results);
// lua_resetthread of a coroutine that died, with hooks.
void reset(lua_State* L, lua_State* co);

}  // namespace dllm::lua
