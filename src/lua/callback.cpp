#include "lua/callback.h"

#include "lua/json_values.h"
#include "lua/state.h"

#include <lauxlib.h>

namespace dllm::lua {
namespace {

// Stack: event text. Runs protected, so that nothing Lua throws crosses the library's frames.
int push_event(lua_State* L) {
  size_t size = 0;
  const char* text = lua_tolstring(L, 1, &size);
  push_json(L, {text, size});
  return 1;
}

}  // namespace

Callback::~Callback() {
  if (state_ == nullptr) return;
  luaL_unref(state_, LUA_REGISTRYINDEX, function_);
  luaL_unref(state_, LUA_REGISTRYINDEX, error_);
}

void Callback::set(lua_State* L, int index) {
  state_ = L;
  lua_pushvalue(L, index);
  function_ = luaL_ref(L, LUA_REGISTRYINDEX);
}

int32_t Callback::trampoline(const dllm_event* event, void* user_data) {
  auto& self = *static_cast<Callback*>(user_data);
  lua_State* L = self.state_;
  dllm_buffer* text = dllm_buffer_new();
  const int top = lua_gettop(L);
  int failed = dllm_event_describe(event, text, nullptr);
  if (failed == DLLM_OK) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, self.function_);
    lua_pushcfunction(L, push_event);
    lua_pushlstring(L, static_cast<const char*>(dllm_buffer_data(text)), static_cast<size_t>(dllm_buffer_size(text)));
    failed = lua_pcall(L, 1, 1, 0);
    if (failed == LUA_OK) failed = lua_pcall(L, 1, 1, 0);
  }
  dllm_buffer_release(text);
  if (failed != LUA_OK) {
    self.error_ = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_settop(L, top);
    return DLLM_FAIL;
  }
  const bool stop = (lua_isboolean(L, -1) && !lua_toboolean(L, -1)) || lua_tointeger(L, -1) == DLLM_STOP;
  lua_settop(L, top);
  return stop ? DLLM_STOP : DLLM_CONTINUE;
}

bool Callback::rethrow(lua_State* L) {
  if (error_ == LUA_NOREF_) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, error_);
  return true;
}

}  // namespace dllm::lua
