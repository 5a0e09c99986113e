#pragma once
// The globals of a script: the standard libraries, those of their functions that have own versions, the embedded modules.

#include <cstddef>
#include <lua.h>
#include <string>
#include <string_view>

namespace dllm::lua {

// Opens the standard libraries, with the own versions of what a stranger's script could hang on. full false: an
// allow-list of globals, os with clock, date and time alone, no io, no debug,
// no way to load files or bytecode; then `require` finds only embedded and preloaded modules.
void open_libraries(lua_State* L, bool full);
// Puts `require`'s searchers in order: preload, folders of `path` (full level), the library's own modules.
void open_searchers(lua_State* L, bool full, const std::string& path);

// Files that were compiled into the library: the manifest and the Lua modules of scripts/lib.

struct EmbeddedFile {
  const char* name; // "manifest.json", "dllm.lua", "dllm/random.lua"
  const char* data;
  size_t size;
};

extern const EmbeddedFile kEmbeddedFiles[];
extern const size_t kEmbeddedFileCount;

// Empty when there is no such file.
std::string_view embedded_file(std::string_view name);

// Own versions of the functions of Lua that catch errors or start a coroutine. They do what Lua's do, and pass the
// end of a stopped call on.

// Replaces the global functions pcall, xpcall, load, setmetatable and the coroutine functions resume, wrap, close.
void open_control(lua_State* L);

// lua_load of a text in pieces, so that a long one can be stopped. Pushes the function; raises what is wrong.
void load_text(lua_State* L, const char* text, size_t size, const char* name);

// Runs what lies on `co` (a function and its arguments); the coroutine is the running one meanwhile.
int resume(lua_State* L, lua_State* co, int arguments, int* results);
// lua_resetthread of a coroutine that died, with hooks.
void reset(lua_State* L, lua_State* co);

// Own versions of the functions of `table` that walk as far as a script says: same results as Lua's, every element is
// charged to the budget.

// Replaces concat, insert, remove, move, unpack and sort.
void open_table_functions(lua_State* L);

// Own versions of the functions of `string`, `utf8` and `os` whose cost a script chooses: same results as Lua's, in
// steps that are charged.

// Replaces find, match, gmatch, gsub, rep; the functions that walk their arguments are charged by size.
void open_text_functions(lua_State* L);

} // namespace dllm::lua
