#include "lua/sandbox.h"

#include "lua/state.h"

#include <lauxlib.h>

namespace dllm::lua {
namespace {

// A table with a finalizer owns a guard, a userdata that only the table reaches:
// registry[kGuards][table] = guard, with weak keys. Lua calls the guard's own finalizer when the
// table is garbage, and it runs the finalizer of the table.
constexpr const char* kGuards = "dllm.finalizers";
constexpr const char* kGuardType = "dllm.finalizer";

// Runs in the coroutine: calls the metatable's __gc with the table.
int call_finalizer(lua_State* L) {
  if (lua_getmetatable(L, 1) == 0) return 0;
  lua_pushliteral(L, "__gc");
  lua_rawget(L, -2);
  if (!lua_isfunction(L, -1)) return 0;
  lua_pushvalue(L, 1);
  lua_call(L, 1, 0);
  return 0;
}

int run_guard(lua_State* L);

void push_guards(lua_State* L) {
  if (luaL_getsubtable(L, LUA_REGISTRYINDEX, kGuards)) return;
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

void guard_table(lua_State* L, int table) {
  push_guards(L);
  lua_pushvalue(L, table);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pushvalue(L, table);
    lua_newuserdatauv(L, 0, 1);
    lua_pushvalue(L, table);
    lua_setiuservalue(L, -2, 1);
    if (luaL_newmetatable(L, kGuardType)) {
      lua_pushcfunction(L, run_guard);
      lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    lua_rawset(L, -4);
  }
  lua_pop(L, 2);
}

int run_guard(lua_State* L) {
  const Shared& own = shared(L);
  if (own.closing || own.stop != DLLM_OK) return 0; // a stopped call does not run the script
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, kGuards);
  lua_pushvalue(L, 2);
  lua_pushnil(L);
  lua_rawset(L, -3);  // the finalizer may set a new one
  if (!own.in_call) { // no script runs: a later collection finds the table again
    guard_table(L, 2);
    return 0;
  }
  lua_State* co = lua_newthread(L);
  lua_pushcfunction(co, call_finalizer);
  lua_pushvalue(L, 2);
  lua_xmove(L, co, 1);
  int results = 0;
  const int status = resume(L, co, 1, &results);
  if (status != LUA_OK && own.stop == DLLM_OK)
    reset(L, co); // errors in finalizers are warnings in Lua, silent here
  if (own.stop != DLLM_OK) look_soon(L);
  return 0;
}

} // namespace

int set_metatable(lua_State* L) {
  const int type = lua_type(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
    return luaL_error(L, "cannot change a protected metatable");
  lua_settop(L, 2);
  if (type == LUA_TTABLE) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL) {
      guard_table(L, 1);
      // Lua marks an object for finalization when its metatable has __gc at this call. The guard
      // replaces this, so __gc is absent during the call.
      lua_pushliteral(L, "__gc");
      lua_pushnil(L);
      lua_rawset(L, 2);
      lua_pushvalue(L, 2);
      lua_setmetatable(L, 1);
      lua_pushliteral(L, "__gc");
      lua_pushvalue(L, 3);
      lua_rawset(L, 2);
      lua_settop(L, 1);
      return 1;
    }
  }
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

} // namespace dllm::lua
