#include "lua/raw_call.h"

#include "lua/state.h"

#include <lauxlib.h>

namespace dllm::lua {
namespace {

// Stack: function, buffer with the event's text. It runs protected, so that Lua exceptions do not
// cross the library's frames.
int call_with_event(lua_State* L) {
  const auto* text = static_cast<const dllm_buffer*>(lua_touserdata(L, 2));
  push_json(L, {static_cast<const char*>(dllm_buffer_data(text)),
                static_cast<size_t>(dllm_buffer_size(text))});
  lua_getfield(L, -1, "event"); // the word of the JSON lines; scripts read `kind`, as in C
  lua_setfield(L, -2, "kind");
  lua_replace(L, 2);
  lua_call(L, 1, 1);
  return 1;
}

} // namespace

Callback::~Callback() {
  if (state_ == nullptr) return;
  luaL_unref(state_, LUA_REGISTRYINDEX, function_);
  luaL_unref(state_, LUA_REGISTRYINDEX, error_);
}

void Callback::set(lua_State* L, int index) {
  state_ = L;
  lua_pushvalue(L, index);
  function_ = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushboolean(L, 0);
  error_ = luaL_ref(L, LUA_REGISTRYINDEX); // a reserved slot, usable when memory is exhausted
}

int32_t Callback::trampoline(const dllm_event* event, void* user_data) {
  auto& self = *static_cast<Callback*>(user_data);
  lua_State* L = self.state_;
  dllm_buffer* text = dllm_buffer_new();
  const int top = lua_gettop(L);
  const bool described =
      dllm_event_describe(event, text, nullptr) == DLLM_OK && lua_checkstack(L, 8) != 0;
  int failed = LUA_OK;
  if (described) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, self.function_);
    lua_pushcfunction(L, call_with_event);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, text);
    failed = lua_pcall(L, 2, 1, 0);
  }
  dllm_buffer_release(text);
  if (!described) return DLLM_FAIL;
  if (failed != LUA_OK) {
    lua_rawseti(L, LUA_REGISTRYINDEX, self.error_);
    self.failed_ = true;
    lua_settop(L, top);
    return DLLM_FAIL;
  }
  const bool stop =
      (lua_isboolean(L, -1) && !lua_toboolean(L, -1)) || lua_tointeger(L, -1) == DLLM_STOP;
  lua_settop(L, top);
  return stop ? DLLM_STOP : DLLM_CONTINUE;
}

bool Callback::rethrow(lua_State* L) {
  if (!failed_) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, error_);
  return true;
}

} // namespace dllm::lua
