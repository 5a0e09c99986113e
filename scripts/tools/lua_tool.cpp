// Runs one Lua script: lua_tool script.lua [argument...]. For our tools and checks; not installed.
#include <cstdio>

#include "lua.h"
// Separate on purpose: lauxlib.h and lualib.h need the types of lua.h.
#include "lauxlib.h"
#include "lualib.h"

namespace {

int traceback(lua_State* state) {
  luaL_traceback(state, state, luaL_tolstring(state, 1, nullptr), 1);
  return 1;
}

// `arg` as the stand-alone interpreter has it: arg[0] is the script, arg[1] its first argument.
void set_arguments(lua_State* state, int argc, char** argv) {
  lua_createtable(state, argc, 1);
  for (int i = 1; i < argc; i++) {
    lua_pushstring(state, argv[i]);
    lua_rawseti(state, -2, i - 1);
  }
  lua_setglobal(state, "arg");
}

// Modules are in the script's folder.
void set_module_path(lua_State* state) {
  luaL_dostring(state,
                "local folder = arg[0]:match('^(.*)/[^/]*$') or '.'\n"
                "package.path = folder .. '/?.lua;' .. (os.getenv('DLLM_TOOLS') or folder) .. "
                "'/?.lua'\n"
                "package.cpath = ''");
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: lua_tool script.lua [argument...]\n");
    return 2;
  }
  lua_State* state = luaL_newstate();
  if (state == nullptr) return 2;
  luaL_openlibs(state);
  set_arguments(state, argc, argv);
  set_module_path(state);
  lua_pushcfunction(state, traceback);
  int failed = luaL_loadfile(state, argv[1]);
  for (int i = 2; !failed && i < argc; i++) lua_pushstring(state, argv[i]);
  if (!failed) failed = lua_pcall(state, argc - 2, 0, 1);
  if (failed) std::fprintf(stderr, "lua_tool: %s\n", lua_tostring(state, -1));
  lua_close(state);
  return failed ? 1 : 0;
}
