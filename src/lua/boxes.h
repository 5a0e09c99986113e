#pragma once
// Handles as Lua values: full userdata with their noun, released by __gc, __close or :close().

#include "lua/manifest.h"

#include <lua.h>

#include <cstdint>
#include <string>

namespace dllm::lua {

// uses: calls under way that hold the handle, below on the stack when a callback runs. It cannot be closed meanwhile.
// busy: one of them is a run with a callback, so that only functions that read it may be called.
struct Box {
  void* handle;
  void (*release)();  // dllm_<noun>_release, each has its own type
  int uses;
  int busy;
  int64_t bytes;  // what it was charged for in addition to its arrays
  bool is_hosts;  // handed over, not made by the script
};

// Makes the metatable "dllm.<noun>" of every noun; its __index is the (empty) table the friendly layer fills.
void open_boxes(lua_State* L);
// Pushes a box that owns the handle; null: an empty one, for fill_box, which cannot fail.
void push_box(lua_State* L, const std::string& noun, void* handle);
void fill_box(lua_State* L, Box& box, void* handle);
// The box at `index`, open; raises when it is closed or of another noun. nil gives null when nullable.
Box* check_box(lua_State* L, int index, const std::string& noun, bool nullable, const char* what);
bool is_box(lua_State* L, int index, const std::string& noun);

}  // namespace dllm::lua
