#pragma once
// Lua values as JSON and back. Tables with keys 1..n are arrays, an empty table is an empty object. Both ways refuse
// what is nested deeper or has more values than the limits, and charge the script's budget by value.

#include <lua.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::lua {

inline constexpr int kMostJsonDepth = 64;  // as base/json.h: what passes here passes there
inline constexpr int64_t kMostJsonValues = int64_t{1} << 22;
inline constexpr size_t kMostJsonBytes = size_t{256} << 20;  // of a text that is written

// Pushes one value; raises when the text is no JSON or over a limit.
void push_json(lua_State* L, std::string_view json);
// The value at `index`; raises for functions, handles, and what is over a limit, tables in themselves among it.
std::string to_json(lua_State* L, int index);
// Installs json.encode and json.decode into the table on top of the stack.
void open_json(lua_State* L);

}  // namespace dllm::lua
