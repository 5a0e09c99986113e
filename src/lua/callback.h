#pragma once
// The one trampoline: a C callback that calls a Lua function with the event as a table.

#include "dllm/event.h"

#include <lua.h>

namespace dllm::lua {

class Callback {
 public:
  ~Callback();
  // Keeps the function at `index`.
  void set(lua_State* L, int index);
  // What dllm_*_run calls; user_data is the Callback. An answer of false or DLLM_STOP stops the run; an error parks
  // itself and returns DLLM_FAIL.
  static int32_t trampoline(const dllm_event* event, void* user_data);
  // Pushes the parked error, the very same object; false when there is none.
  bool rethrow(lua_State* L);

 private:
  lua_State* state_ = nullptr;
  bool failed_ = false;
  int function_ = LUA_NOREF_, error_ = LUA_NOREF_;
  static constexpr int LUA_NOREF_ = -2;  // lauxlib's LUA_NOREF
};

}  // namespace dllm::lua
