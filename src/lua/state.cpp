#include "lua/state.h"

#include "lua/sandbox.h"

#include <algorithm>
#include <ffi.h>
#include <lauxlib.h>
#include <utility>

namespace dllm::lua {

const char* level_name(Level level) {
  constexpr const char* kNames[] = {"safe", "files", "full"};
  return kNames[static_cast<int>(level)];
}

Shared& shared(lua_State* L) {
  void* data = nullptr;
  lua_getallocf(L, &data); // every coroutine has the allocator's user data
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

} // namespace

void push_error(lua_State* L, const char* code, const char* message, const char* hint) {
  // The texts are copied, because they may belong to the shared error: allocating may run a
  // finalizer, whose calls may overwrite the error.
  const std::string kept_code = code, kept_message = message, kept_hint = hint;
  lua_createtable(L, 0, 3);
  for (const auto& [key, value] : {std::pair<const char*, const std::string&>{"code", kept_code},
                                   {"message", kept_message},
                                   {"hint", kept_hint}}) {
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, key);
  }
  // The name is not "dllm.error", which is the metatable of boxed handles of the noun error.
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

namespace {

// Returns the text of an error value: its message, its __tostring, or the content of a plain table.
std::string text_of_error(lua_State* L) {
  if (lua_istable(L, 1)) {
    if (lua_getfield(L, 1, "message") == LUA_TSTRING) return lua_tostring(L, -1);
    if (luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL) {
      lua_pushcfunction(L, [](lua_State* inner) {
        const std::string json = to_json(inner, 1);
        lua_pushlstring(inner, json.data(), json.size());
        return 1;
      });
      lua_pushvalue(L, 1);
      if (lua_pcall(L, 1, 1, 0) == LUA_OK) return lua_tostring(L, -1);
      pass_stop_on(L);
    }
  }
  return luaL_tolstring(L, 1, nullptr);
}

} // namespace

int with_traceback(lua_State* L) {
  std::string code = "script_failed", hint, message;
  if (shared(L).stop == DLLM_OK) {
    if (lua_istable(L, 1)) {
      if (lua_getfield(L, 1, "code") == LUA_TSTRING) code = lua_tostring(L, -1);
      lua_getfield(L, 1, "hint");
      if (const char* text = lua_tostring(L, -1)) hint = text;
      lua_settop(L, 1);
    }
    message = text_of_error(L);
    if (message == kNoMemory) code = "resource_exhausted";
  }
  lua_settop(L, 1);
  luaL_traceback(L, L, nullptr, 1);
  const std::string trace = lua_tostring(L, -1);
  lua_newtable(L);
  for (const auto& [key, value] : {std::pair<const char*, const std::string&>{"code", code},
                                   {"message", message},
                                   {"hint", hint},
                                   {"traceback", trace}}) {
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, key);
  }
  return 1;
}

namespace {

// Upvalue 1: the noun's metatable name.
Box& own_box(lua_State* L) {
  return *static_cast<Box*>(luaL_checkudata(L, 1, lua_tostring(L, lua_upvalueindex(1))));
}

// Calls the release function with libffi, because each has its own parameter type and a call with
// another type is undefined.
void call_release(const Box& box) {
  if (box.release == nullptr) return;
  ffi_cif cif;
  ffi_type* types[] = {&ffi_type_pointer};
  if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, 1, &ffi_type_void, types) != FFI_OK) return;
  void* handle = box.handle;
  void* values[] = {&handle};
  ffi_call(&cif, box.release, nullptr, values);
}

int close_box(lua_State* L) {
  Box& box = own_box(L);
  if (box.handle == nullptr) return 0;
  if (box.uses > 0) {
    const std::string noun = lua_tostring(L, lua_upvalueindex(1)) + 5; // after "dllm."
    raise(L, "failed_precondition", "the " + noun + " is in use by a call that is under way",
          "close it after that call, or stop the call with dllm.STOP");
  }
  call_release(box);
  box.handle = nullptr;
  if (shared(L).library != nullptr) shared(L).library->add(-box.bytes);
  return 0;
}

int box_to_string(lua_State* L) {
  const Box& box = own_box(L);
  const char* name = lua_tostring(L, lua_upvalueindex(1));
  if (box.handle == nullptr)
    lua_pushfstring(L, "%s (closed)", name);
  else
    lua_pushfstring(L, "%s: %p", name, box.handle);
  return 1;
}

std::string metatable_name(const std::string& noun) {
  return "dllm." + noun;
}

using Address = void (*)();

Address release_of(const std::string& noun) {
  for (const Function& function : manifest().functions) {
    if (function.name == "dllm_" + noun + "_release") return function.address;
  }
  return nullptr;
}

} // namespace

void open_boxes(lua_State* L) {
  for (const std::string& noun : manifest().nouns) {
    const std::string name = metatable_name(noun);
    const auto set = [&](const char* field, lua_CFunction function) {
      lua_pushstring(L, name.c_str());
      lua_pushcclosure(L, function, 1);
      lua_setfield(L, -2, field);
    };
    luaL_newmetatable(L, name.c_str());
    lua_newtable(L);
    set("close", close_box);
    lua_setfield(L, -2, "__index");
    set("__gc", close_box);
    set("__close", close_box);
    set("__tostring", box_to_string);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable"); // scripts cannot reach the finalizer
    lua_pop(L, 1);
  }
}

void push_box(lua_State* L, const std::string& noun, void* handle) {
  auto* box = static_cast<Box*>(lua_newuserdatauv(L, sizeof(Box), 1));
  *box = {nullptr, release_of(noun), 0, 0, 0, handle != nullptr};
  luaL_setmetatable(L, metatable_name(noun).c_str());
  if (handle != nullptr) fill_box(L, *box, handle);
}

void fill_box(lua_State* L, Box& box, void* handle) {
  constexpr int64_t kBytes = 512; // estimate for the handle and its small parts
  box.handle = handle;
  if (handle == nullptr || shared(L).library == nullptr) return;
  box.bytes = kBytes;
  shared(L).library->add(kBytes);
}

bool is_box(lua_State* L, int index, const std::string& noun) {
  return luaL_testudata(L, index, metatable_name(noun).c_str()) != nullptr;
}

Box* check_box(lua_State* L, int index, const std::string& noun, bool nullable, const char* what) {
  if (nullable && lua_isnoneornil(L, index)) return nullptr;
  auto* box = static_cast<Box*>(luaL_testudata(L, index, metatable_name(noun).c_str()));
  if (box == nullptr) {
    raise(L, "invalid_argument",
          std::string(what) + " must be a " + noun + ", not " + luaL_typename(L, index));
  }
  if (box->handle == nullptr)
    raise(L, "invalid_argument", std::string(what) + " is a closed " + noun);
  return box;
}

} // namespace dllm::lua
