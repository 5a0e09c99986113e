#pragma once
// What a script may reach.

#include <lua.h>

#include <string>

namespace dllm::lua {

// Opens the standard libraries, with the own versions of what a stranger's script could hang on. full false: an
// allow-list of globals, os with clock, date and time alone, no io, no debug,
// no way to load files or bytecode; then `require` finds only embedded and preloaded modules.
void open_libraries(lua_State* L, bool full);
// Puts `require`'s searchers in order: preload, folders of `path` (full level), the library's own modules.
void open_searchers(lua_State* L, bool full, const std::string& path);

}  // namespace dllm::lua
