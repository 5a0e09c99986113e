#pragma once
// Handles as Lua values: full userdata with their noun, released by __gc, __close or :close().

#include <lua.h>

#include <string>

namespace dllm::lua {

// Makes the metatable "dllm.<noun>" of every noun; its __index is the (empty) table the friendly layer fills.
void open_boxes(lua_State* L);
// Pushes a box that owns the handle.
void push_box(lua_State* L, const std::string& noun, void* handle);
// The handle at `index`; raises when it is closed or of another noun. nil gives null when nullable.
void* check_box(lua_State* L, int index, const std::string& noun, bool nullable, const char* what);
// Empties the box: its handle was released by a call.
void forget_box(lua_State* L, int index);
bool is_box(lua_State* L, int index, const std::string& noun);

}  // namespace dllm::lua
