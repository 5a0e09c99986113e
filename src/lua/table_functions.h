#pragma once
// Own versions of the functions of `table` that walk as far as a script says: same results as Lua's, every element is
// charged to the budget.

#include <lua.h>

namespace dllm::lua {

// Replaces concat, insert, remove, move, unpack and sort.
void open_table_functions(lua_State* L);

}  // namespace dllm::lua
