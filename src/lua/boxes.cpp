#include "lua/boxes.h"

#include "lua/manifest.h"
#include "lua/state.h"

#include <lauxlib.h>

namespace dllm::lua {
namespace {

struct Box {
  void* handle;
  void (*release)(void*);
};

int close_box(lua_State* L) {
  auto* box = static_cast<Box*>(lua_touserdata(L, 1));
  if (box != nullptr && box->handle != nullptr) {
    box->release(box->handle);
    box->handle = nullptr;
  }
  return 0;
}

int box_to_string(lua_State* L) {
  const auto* box = static_cast<Box*>(lua_touserdata(L, 1));
  luaL_getmetafield(L, 1, "__name");
  if (box->handle == nullptr) lua_pushfstring(L, "%s (closed)", lua_tostring(L, -1));
  else lua_pushfstring(L, "%s: %p", lua_tostring(L, -1), box->handle);
  return 1;
}

std::string metatable_name(const std::string& noun) { return "dllm." + noun; }

using ReleaseFn = void (*)(void*);

ReleaseFn release_of(const std::string& noun) {
  for (const Function& function : manifest().functions) {
    if (function.name == "dllm_" + noun + "_release") return reinterpret_cast<ReleaseFn>(function.address);
  }
  return [](void*) {};
}

}  // namespace

void open_boxes(lua_State* L) {
  for (const std::string& noun : manifest().nouns) {
    luaL_newmetatable(L, metatable_name(noun).c_str());
    lua_newtable(L);
    lua_pushcfunction(L, close_box);
    lua_setfield(L, -2, "close");
    lua_setfield(L, -2, "__index");
    for (const char* event : {"__gc", "__close"}) {
      lua_pushcfunction(L, close_box);
      lua_setfield(L, -2, event);
    }
    lua_pushcfunction(L, box_to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");  // scripts cannot reach the finalizer
    lua_pop(L, 1);
  }
}

void push_box(lua_State* L, const std::string& noun, void* handle) {
  auto* box = static_cast<Box*>(lua_newuserdatauv(L, sizeof(Box), 1));
  *box = {handle, release_of(noun)};
  luaL_setmetatable(L, metatable_name(noun).c_str());
}

bool is_box(lua_State* L, int index, const std::string& noun) {
  return luaL_testudata(L, index, metatable_name(noun).c_str()) != nullptr;
}

void* check_box(lua_State* L, int index, const std::string& noun, bool nullable, const char* what) {
  if (nullable && lua_isnoneornil(L, index)) return nullptr;
  const auto* box = static_cast<Box*>(luaL_testudata(L, index, metatable_name(noun).c_str()));
  if (box == nullptr) {
    const std::string message =
        std::string(what) + " must be a " + noun + ", not " + luaL_typename(L, index);
    raise(L, "invalid_argument", message.c_str(), "");
  }
  if (box->handle == nullptr) {
    const std::string message = std::string(what) + " is a closed " + noun;
    raise(L, "invalid_argument", message.c_str(), "");
  }
  return box->handle;
}

void forget_box(lua_State* L, int index) { static_cast<Box*>(lua_touserdata(L, index))->handle = nullptr; }

}  // namespace dllm::lua
