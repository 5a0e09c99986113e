#include "lua/sandbox.h"

#include "lua/state.h"

#include <lauxlib.h>
#include <lstate.h>

#include <algorithm>

namespace dllm::lua {
namespace {

// ---- pcall, xpcall ----

// Runs after the protected call, also when a coroutine continues. extra: number of values below the
// results to skip.
int finish(lua_State* L, int status, lua_KContext extra) {
  pass_stop_on(L);
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - static_cast<int>(extra);
  lua_pushboolean(L, 0);
  lua_pushvalue(L, -2);
  return 2;
}

int protected_call(lua_State* L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  return finish(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish), 0);
}

// The handler of xpcall. It calls the script's handler where the error was raised, but not when the
// call must stop.
int guarded_handler(lua_State* L) {
  if (shared(L).stop != DLLM_OK) return 1;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

int protected_call_with_handler(lua_State* L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  const int arguments = lua_gettop(L) - 2;
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, guarded_handler, 1);
  lua_replace(L, 2);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2); // function, handler, true, function, arguments
  return finish(L, lua_pcallk(L, arguments, LUA_MULTRET, 2, 2, finish), 2);
}

// ---- load ----

constexpr size_t kPiece = 4096;

struct TextPieces {
  const char* text;
  size_t left;
};

const char* next_piece(lua_State* L, void* data, size_t* size) {
  auto& pieces = *static_cast<TextPieces*>(data);
  *size = std::min(pieces.left, kPiece);
  const char* piece = pieces.text;
  pieces.text += *size;
  pieces.left -= *size;
  charge(L, static_cast<int64_t>(*size) / 4);
  return piece;
}

// Stack slot 5 keeps the piece alive, as in Lua's own.
const char* next_piece_of_function(lua_State* L, void*, size_t* size) {
  luaL_checkstack(L, 2, "too many nested functions");
  charge(L, 1);
  lua_pushvalue(L, 1);
  lua_call(L, 0, 1);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    *size = 0;
    return nullptr;
  }
  if (!lua_isstring(L, -1)) luaL_error(L, "reader function must return a string");
  lua_replace(L, 5);
  const char* piece = lua_tolstring(L, 5, size);
  charge(L, static_cast<int64_t>(*size) / 4);
  return piece;
}

// Below level full only text chunks are loaded, because bytecode can crash the interpreter.
const char* mode_of(lua_State* L) {
  return shared(L).level == Level::full ? luaL_optstring(L, 3, "bt") : "t";
}

int load(lua_State* L) {
  lua_settop(L, lua_isnone(L, 4) ? 3 : 4);
  const bool has_environment = lua_gettop(L) == 4;
  int status = LUA_OK;
  if (size_t size = 0; const char* text = lua_tolstring(L, 1, &size)) {
    TextPieces pieces{text, size};
    status = lua_load(L, next_piece, &pieces, luaL_optstring(L, 2, text), mode_of(L));
  } else {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    const char* name = luaL_optstring(L, 2, "=(load)");
    lua_settop(L, 5);
    status = lua_load(L, next_piece_of_function, nullptr, name, mode_of(L));
  }
  pass_stop_on(L);
  if (status != LUA_OK) {
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (has_environment) {
    lua_pushvalue(L, 4);
    if (lua_setupvalue(L, -2, 1) == nullptr) lua_pop(L, 1);
  }
  return 1;
}

// ---- coroutines ----

// Makes `co` the running coroutine in this scope. A stopped call does not start a coroutine.
class Running {
public:
  Running(lua_State* L, lua_State* co) : own_(shared(L)), before_(own_.running) {
    pass_stop_on(L);
    charge(L, kResumeSteps);
    own_.running = co;
    if (own_.big_blocks > 0) look_soon(co); // its hook may be set for a time without any
  }
  ~Running() { own_.running = before_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

private:
  Shared& own_;
  lua_State* before_;
};

// Moves the results of a resume to L and returns their number, or -1 for one error value.
int resume_here(lua_State* L, lua_State* co, int arguments) {
  if (!lua_checkstack(co, arguments)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, arguments);
  int results = 0;
  const int status = resume(L, co, arguments, &results);
  pass_stop_on(L);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

int coroutine_resume(lua_State* L) {
  lua_State* co = lua_tothread(L, 1);
  luaL_argexpected(L, co != nullptr, 1, "coroutine");
  const int results = resume_here(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, results >= 0);
  lua_insert(L, results < 0 ? -2 : -(results + 1));
  return results < 0 ? 2 : results + 1;
}

int resume_wrapped(lua_State* L) {
  lua_State* co = lua_tothread(L, lua_upvalueindex(1));
  const int results = resume_here(L, co, lua_gettop(L));
  if (results >= 0) return results;
  const int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) { // it died: close its variables
    lua_pop(L, 1);
    reset(L, co);
    pass_stop_on(L);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

int coroutine_wrap(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State* co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, resume_wrapped, 1);
  return 1;
}

// Calls Lua's function (the upvalue), which may run functions that close variables.
int coroutine_close(lua_State* L) {
  int results = 0;
  if (lua_State* co = lua_tothread(L, 1); co != nullptr) {
    const Running running(L, co);
    co->allowhook = 1;
    results = lua_tocfunction(L, lua_upvalueindex(1))(L);
  } else {
    luaL_typeerror(L, 1, "coroutine");
  }
  pass_stop_on(L);
  return results;
}

} // namespace

int resume(lua_State* L, lua_State* co, int arguments, int* results) {
  const Running running(L, co);
  return lua_resume(co, L, arguments, results);
}

void reset(lua_State* L, lua_State* co) {
  const Running running(L, co);
  // Lua turns hooks off in a coroutine that an error of a hook ended. Without hooks the functions
  // that close its variables could not be stopped.
  co->allowhook = 1;
  lua_resetthread(co);
}

void load_text(lua_State* L, const char* text, size_t size, const char* name) {
  TextPieces pieces{text, size};
  const int status = lua_load(L, next_piece, &pieces, name, "t");
  pass_stop_on(L);
  if (status != LUA_OK) lua_error(L);
}

void open_control(lua_State* L) {
  constexpr luaL_Reg kGlobals[] = {{"pcall", protected_call},
                                   {"xpcall", protected_call_with_handler},
                                   {"load", load},
                                   {"setmetatable", set_metatable}};
  for (const luaL_Reg& entry : kGlobals) {
    lua_pushcfunction(L, entry.func);
    lua_setglobal(L, entry.name);
  }
  lua_getglobal(L, "coroutine");
  lua_pushcfunction(L, coroutine_resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, coroutine_wrap);
  lua_setfield(L, -2, "wrap");
  lua_getfield(L, -1, "close");
  lua_pushcclosure(L, coroutine_close, 1);
  lua_setfield(L, -2, "close");
  lua_pop(L, 1);
}

} // namespace dllm::lua
