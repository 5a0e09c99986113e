#pragma once
// Own versions of the functions of `string`, `utf8` and `os` whose cost a script chooses: same results as Lua's, in
// steps that are charged.

#include <lua.h>

namespace dllm::lua {

// Replaces find, match, gmatch, gsub, rep; the functions that walk their arguments are charged by size.
void open_text_functions(lua_State* L);

}  // namespace dllm::lua
