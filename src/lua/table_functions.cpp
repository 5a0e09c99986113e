#include "lua/sandbox.h"

#include <lauxlib.h>

#include <climits>

namespace dllm::lua {
namespace {

// Every value that can be indexed is a table here; other values fail when they are indexed.
void check_table(lua_State* L, int index) {
  if (lua_istable(L, index)) return;
  const bool indexed = luaL_getmetafield(L, index, "__index") != LUA_TNIL;
  if (indexed) lua_pop(L, 1);
  if (!indexed) luaL_checktype(L, index, LUA_TTABLE);
}

void copy_element(lua_State* L, int from_table, lua_Integer from, int to_table, lua_Integer to) {
  charge(L, 1);
  lua_geti(L, from_table, from);
  lua_seti(L, to_table, to);
}

int insert(lua_State* L) {
  check_table(L, 1);
  const auto end =
      static_cast<lua_Integer>(static_cast<lua_Unsigned>(luaL_len(L, 1)) + 1); // may wrap
  const int count = lua_gettop(L);
  if (count != 2 && count != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
  lua_Integer at = end;
  if (count == 3) {
    at = luaL_checkinteger(L, 2);
    luaL_argcheck(L, static_cast<lua_Unsigned>(at) - 1u < static_cast<lua_Unsigned>(end), 2,
                  "position out of bounds");
    for (lua_Integer i = end; i > at; --i) copy_element(L, 1, i - 1, 1, i);
  }
  lua_seti(L, 1, at);
  return 0;
}

int remove(lua_State* L) {
  check_table(L, 1);
  const lua_Integer size = luaL_len(L, 1);
  lua_Integer at = luaL_optinteger(L, 2, size);
  if (at != size) {
    luaL_argcheck(L, static_cast<lua_Unsigned>(at) - 1u <= static_cast<lua_Unsigned>(size), 2,
                  "position out of bounds");
  }
  lua_geti(L, 1, at);
  for (; at < size; ++at) copy_element(L, 1, at + 1, 1, at);
  lua_pushnil(L);
  lua_seti(L, 1, at);
  return 1;
}

int move(lua_State* L) {
  const lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3),
                    to = luaL_checkinteger(L, 4);
  const int target = lua_isnoneornil(L, 5) ? 1 : 5;
  check_table(L, 1);
  check_table(L, target);
  if (last >= first) {
    luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
    const lua_Integer count = last - first + 1;
    luaL_argcheck(L, to <= LUA_MAXINTEGER - count + 1, 4, "destination wrap around");
    const bool overlaps =
        to > first && to <= last && (target == 1 || lua_compare(L, 1, target, LUA_OPEQ) != 0);
    for (lua_Integer i = 0; i < count; ++i) {
      const lua_Integer step = overlaps ? count - 1 - i : i;
      copy_element(L, 1, first + step, target, to + step);
    }
  }
  lua_pushvalue(L, target);
  return 1;
}

int concat(lua_State* L) {
  check_table(L, 1);
  lua_Integer last = luaL_len(L, 1);
  size_t between_size = 0;
  const char* between = luaL_optlstring(L, 2, "", &between_size);
  const lua_Integer first = luaL_optinteger(L, 3, 1);
  last = luaL_optinteger(L, 4, last);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (lua_Integer i = first; i <= last; ++i) {
    lua_geti(L, 1, i);
    if (!lua_isstring(L, -1)) {
      return luaL_error(L, "invalid value (%s) at index %I in table for 'concat'",
                        luaL_typename(L, -1), static_cast<LUAI_UACINT>(i));
    }
    charge(L, 1 + static_cast<int64_t>(lua_rawlen(L, -1) + between_size) / kBytesPerStep);
    luaL_addvalue(&out);
    if (i == last) break; // last may be the largest integer
    luaL_addlstring(&out, between, between_size);
  }
  luaL_pushresult(&out);
  return 1;
}

int unpack(lua_State* L) {
  const lua_Integer first = luaL_optinteger(L, 2, 1);
  const lua_Integer last = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
  if (first > last) return 0;
  const lua_Unsigned count =
      static_cast<lua_Unsigned>(last) - static_cast<lua_Unsigned>(first); // less one
  if (count >= static_cast<lua_Unsigned>(INT_MAX) ||
      !lua_checkstack(L, static_cast<int>(count + 1))) {
    return luaL_error(L, "too many results to unpack");
  }
  for (lua_Unsigned i = 0; i <= count; ++i) {
    charge(L, 1);
    lua_geti(L, 1, first + static_cast<lua_Integer>(i));
  }
  return static_cast<int>(count + 1);
}

// ---- sort: a heap, so that the cost is n log n for any order function ----

// Returns true when the value at stack index a is less than the value at b.
bool is_less(lua_State* L, int a, int b) {
  charge(L, 2);
  if (lua_isnil(L, 2)) return lua_compare(L, a, b, LUA_OPLT) != 0;
  a = lua_absindex(L, a);
  b = lua_absindex(L, b);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, a);
  lua_pushvalue(L, b);
  lua_call(L, 2, 1);
  const bool less = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return less;
}

// Pops the value on top of the stack and moves it down from `root` until its children are not
// larger.
void sift_down(lua_State* L, lua_Integer root, lua_Integer count) {
  const int value = lua_gettop(L);
  while (root <= count / 2) {
    lua_Integer child = 2 * root;
    lua_geti(L, 1, child);
    if (child < count) {
      lua_geti(L, 1, child + 1);
      if (is_less(L, -2, -1)) {
        lua_remove(L, -2);
        ++child;
      } else {
        lua_pop(L, 1);
      }
    }
    if (!is_less(L, value, -1)) break;
    lua_seti(L, 1, root);
    root = child;
  }
  lua_settop(L, value);
  lua_seti(L, 1, root);
}

int sort(lua_State* L) {
  check_table(L, 1);
  const lua_Integer count = luaL_len(L, 1);
  if (count < 2) return 0;
  luaL_argcheck(L, count < INT_MAX, 1, "array too big");
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  for (lua_Integer root = count / 2; root >= 1; --root) {
    lua_geti(L, 1, root);
    sift_down(L, root, count);
  }
  for (lua_Integer last = count; last > 1; --last) {
    lua_geti(L, 1, last);
    lua_geti(L, 1, 1);
    lua_seti(L, 1, last);
    sift_down(L, 1, last - 1);
  }
  return 0;
}

} // namespace

void open_table_functions(lua_State* L) {
  constexpr luaL_Reg kOwn[] = {{"concat", concat}, {"insert", insert}, {"remove", remove},
                               {"move", move},     {"unpack", unpack}, {"sort", sort}};
  lua_getglobal(L, "table");
  for (const luaL_Reg& entry : kOwn) {
    lua_pushcfunction(L, entry.func);
    lua_setfield(L, -2, entry.name);
  }
  lua_pop(L, 1);
}

} // namespace dllm::lua
