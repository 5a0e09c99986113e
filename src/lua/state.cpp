#include "lua/state.h"

#include "lua/heap.h"

#include <lauxlib.h>

#include <algorithm>
#include <utility>

namespace dllm::lua {

const char* level_name(Level level) {
  constexpr const char* kNames[] = {"safe", "files", "full"};
  return kNames[static_cast<int>(level)];
}

Shared& shared(lua_State* L) {
  void* data = nullptr;
  lua_getallocf(L, &data);  // the allocator's user data is the one pointer that is always at hand
  return *static_cast<Shared*>(data);
}

int64_t room_left(const Shared& own) {
  const int64_t most = own.level == Level::full ? INT64_MAX : static_cast<int64_t>(kMostBlock);
  if (own.limit == 0) return most;
  const int64_t used = own.heap + (own.library == nullptr ? 0 : own.library->used());
  return std::clamp<int64_t>(own.limit - used, 0, most);
}

namespace {

int error_to_string(lua_State* L) {
  lua_getfield(L, 1, "message");
  lua_getfield(L, 1, "hint");
  if (lua_rawlen(L, -1) == 0) {
    lua_pop(L, 1);
    return 1;
  }
  lua_pushfstring(L, "%s (%s)", lua_tostring(L, -2), lua_tostring(L, -1));
  return 1;
}

}  // namespace

void push_error(lua_State* L, const char* code, const char* message, const char* hint) {
  // Copies: the texts may be the shared error's, and memory taken here may run a finalizer whose calls fail too.
  const std::string kept_code = code, kept_message = message, kept_hint = hint;
  lua_createtable(L, 0, 3);
  for (const auto& [key, value] : {std::pair<const char*, const std::string&>{"code", kept_code},
                                   {"message", kept_message}, {"hint", kept_hint}}) {
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, key);
  }
  // Not "dllm.error": that is the metatable of boxed handles of the noun error.
  if (luaL_newmetatable(L, "dllm.failure")) {
    lua_pushcfunction(L, error_to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pushliteral(L, "dllm.error");
    lua_setfield(L, -2, "__name");
  }
  lua_setmetatable(L, -2);
}

void raise(lua_State* L, const char* code, const char* message, const char* hint) {
  push_error(L, code, message, hint);
  lua_error(L);
  __builtin_unreachable();
}

void raise(lua_State* L, const char* code, const std::string& message, const std::string& hint) {
  raise(L, code, message.c_str(), hint.c_str());
}

}  // namespace dllm::lua
