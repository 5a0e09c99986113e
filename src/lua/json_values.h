#pragma once
// Lua values as JSON and back. Tables with keys 1..n are arrays, an empty table is an empty object.

#include <lua.h>

#include <string>
#include <string_view>

namespace dllm::lua {

// Pushes one value; raises when the text is no JSON.
void push_json(lua_State* L, std::string_view json);
// The value at `index`; raises for functions, handles and tables that hold themselves.
std::string to_json(lua_State* L, int index);
// Installs json.encode and json.decode into the table on top of the stack.
void open_json(lua_State* L);

}  // namespace dllm::lua
