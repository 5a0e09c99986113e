#include "lua/sandbox.h"

#include "lua/state.h"

#include <cstdlib>
#include <cstring>
#include <lauxlib.h>
#include <lualib.h>

namespace dllm::lua {
namespace {

// An allow-list, so that globals of a later version of Lua are absent until they are listed.
constexpr const char* kSafeGlobals[] = {
    "_G",     "_VERSION",  "assert",   "error",    "getmetatable", "ipairs",
    "math",   "next",      "os",       "pairs",    "pcall",        "rawequal",
    "rawget", "rawlen",    "rawset",   "require",  "select",       "setmetatable",
    "string", "table",     "tonumber", "tostring", "type",         "utf8",
    "xpcall", "coroutine", "package",  "load",     "print"};
constexpr const char* kSafeOs[] = {"clock", "date", "time", "difftime"};
constexpr const char* kSafePackage[] = {"loaded", "preload"};

bool contains(const char* const* list, size_t count, const char* word) {
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(list[i], word) == 0) return true;
  }
  return false;
}

// Removes every field of the table on top that the list does not name.
template <size_t N> void keep_only(lua_State* L, const char* const (&list)[N]) {
  lua_newtable(L); // names to remove: a table must not change while it is walked
  lua_Integer count = 0;
  for (lua_pushnil(L); lua_next(L, -3) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING && contains(list, N, lua_tostring(L, -2))) continue;
    lua_pushvalue(L, -2);
    lua_rawseti(L, -4, ++count);
  }
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, -1, i);
    lua_pushnil(L);
    lua_rawset(L, -4);
  }
  lua_pop(L, 1);
}

// print() discards its text at the safe level, because a library does not write to standard output.
int print_nothing(lua_State* L) {
  const int count = lua_gettop(L);
  for (int i = 1; i <= count; ++i) {
    luaL_tolstring(L, i, nullptr);
    lua_pop(L, 1);
  }
  return 0;
}

int search_embedded(lua_State* L) {
  std::string name = luaL_checkstring(L, 1);
  for (char& c : name) {
    if (c == '.') c = '/';
  }
  name += ".lua";
  const std::string_view text = embedded_file(name);
  if (text.empty()) {
    lua_pushfstring(L, "no embedded module '%s'", name.c_str());
    return 1;
  }
  load_text(L, text.data(), text.size(), ("=" + name).c_str());
  lua_pushstring(L, name.c_str());
  return 2;
}

} // namespace

void open_libraries(lua_State* L, bool full) {
  luaL_openlibs(L);
  open_control(L);
  open_text_functions(L);
  open_table_functions(L);
  if (full) return;
  lua_pushcfunction(L, print_nothing);
  lua_setglobal(L, "print");
  lua_pushglobaltable(L);
  keep_only(L, kSafeGlobals);
  lua_getfield(L, -1, "os");
  keep_only(L, kSafeOs);
  lua_getfield(L, -2, "string");
  lua_pushnil(L);
  lua_setfield(L, -2, "dump");
  lua_pop(L, 3);
}

void open_searchers(lua_State* L, bool full, const std::string& path) {
  lua_getglobal(L, "package");
  std::string folders;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(';', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    if (!folder.empty())
      folders += (folders.empty() ? "" : ";") + folder + "/?.lua;" + folder + "/?/init.lua";
    begin = end + 1;
  }
  lua_pushlstring(L, folders.data(), full ? folders.size() : 0);
  lua_setfield(L, -2, "path");
  lua_pushliteral(L, "");
  lua_setfield(L, -2, "cpath");
  lua_getfield(L, -1, "searchers");
  if (!full) { // preload stays
    for (lua_Integer i = 2; i <= 4; ++i) {
      lua_pushnil(L);
      lua_rawseti(L, -2, i);
    }
  }
  const lua_Integer slot = full ? 3 : 2; // files of the user come first; native modules never
  if (full) {
    lua_pushnil(L);
    lua_rawseti(L, -2, 4);
  }
  lua_pushcfunction(L, search_embedded);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  if (!full) {
    // `package.loaded` holds io, debug and the full os: scripts must not find them there.
    lua_getfield(L, -1, "loaded");
    for (const char* name : {"io", "debug"}) {
      lua_pushnil(L);
      lua_setfield(L, -2, name);
    }
    lua_pop(L, 1);
    lua_getfield(L, -1, "searchers");
    lua_setfield(L, LUA_REGISTRYINDEX, "dllm.searchers");
    keep_only(L, kSafePackage);
    lua_getfield(L, LUA_REGISTRYINDEX, "dllm.searchers");
    lua_setfield(L, -2, "searchers"); // require needs it
    for (const char* name : {"path", "cpath"}) {
      lua_pushliteral(L, "");
      lua_setfield(L, -2, name);
    }
  }
  lua_pop(L, 1);
}

std::string_view embedded_file(std::string_view name) {
  for (size_t i = 0; i < kEmbeddedFileCount; ++i) {
    if (name == kEmbeddedFiles[i].name) return {kEmbeddedFiles[i].data, kEmbeddedFiles[i].size};
  }
  return {};
}

} // namespace dllm::lua
