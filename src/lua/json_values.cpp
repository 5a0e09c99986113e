#include "lua/json_values.h"

#include "lua/state.h"

#include <lauxlib.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::lua {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxDepth = 64;

void push_value(lua_State* L, const Json& value) {
  luaL_checkstack(L, 4, "JSON");
  switch (value.type()) {
    case Json::value_t::boolean: lua_pushboolean(L, value.get<bool>()); return;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: lua_pushinteger(L, value.get<lua_Integer>()); return;
    case Json::value_t::number_float: lua_pushnumber(L, value.get<double>()); return;
    case Json::value_t::string: {
      const std::string& text = value.get_ref<const std::string&>();
      lua_pushlstring(L, text.data(), text.size());
      return;
    }
    case Json::value_t::array: {
      lua_createtable(L, static_cast<int>(value.size()), 0);
      lua_Integer i = 0;
      for (const Json& item : value) {
        push_value(L, item);
        lua_rawseti(L, -2, ++i);
      }
      return;
    }
    case Json::value_t::object: {
      lua_createtable(L, 0, static_cast<int>(value.size()));
      for (const auto& [key, item] : value.items()) {
        lua_pushlstring(L, key.data(), key.size());
        push_value(L, item);
        lua_rawset(L, -3);
      }
      return;
    }
    default: lua_pushnil(L);
  }
}

// The length of a table with keys 1..n and no other, or -1.
lua_Integer sequence_length(lua_State* L, int index) {
  const auto length = static_cast<lua_Integer>(lua_rawlen(L, index));
  lua_Integer keys = 0;
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) ++keys;
  return keys == length && keys > 0 ? length : -1;
}

Json read_value(lua_State* L, int index, int depth);

Json read_table(lua_State* L, int index, int depth) {
  if (const lua_Integer length = sequence_length(L, index); length > 0) {
    Json array = Json::array();
    for (lua_Integer i = 1; i <= length; ++i) {
      lua_rawgeti(L, index, i);
      array.push_back(read_value(L, lua_gettop(L), depth + 1));
      lua_pop(L, 1);
    }
    return array;
  }
  Json object = Json::object();
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    lua_pushvalue(L, -2);  // lua_tostring may change the key it converts
    const std::string key = lua_tostring(L, -1) == nullptr ? luaL_typename(L, -1) : lua_tostring(L, -1);
    lua_pop(L, 1);
    object[key] = read_value(L, lua_gettop(L), depth + 1);
  }
  return object;
}

Json read_value(lua_State* L, int index, int depth) {
  if (depth > kMaxDepth) raise(L, "invalid_argument", "a table is nested deeper than 64", "");
  luaL_checkstack(L, 8, "JSON");
  switch (lua_type(L, index)) {
    case LUA_TNIL: return nullptr;
    case LUA_TBOOLEAN: return lua_toboolean(L, index) != 0;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) return static_cast<int64_t>(lua_tointeger(L, index));
      return lua_tonumber(L, index);
    case LUA_TSTRING: {
      size_t size = 0;
      const char* text = lua_tolstring(L, index, &size);
      return std::string(text, size);
    }
    case LUA_TTABLE: return read_table(L, index, depth);
    default: {
      const std::string message = std::string("a ") + luaL_typename(L, index) + " has no JSON form";
      raise(L, "invalid_argument", message.c_str(), "");
    }
  }
}

int encode(lua_State* L) {
  luaL_checkany(L, 1);
  const std::string text = to_json(L, 1);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int decode(lua_State* L) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, 1, &size);
  push_json(L, {text, size});
  return 1;
}

}  // namespace

void push_json(lua_State* L, std::string_view text) {
  const Json value = Json::parse(text.begin(), text.end(), nullptr, false);
  if (value.is_discarded()) raise(L, "invalid_argument", "the text is not valid JSON", "");
  push_value(L, value);
}

std::string to_json(lua_State* L, int index) {
  return read_value(L, lua_absindex(L, index), 0).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void open_json(lua_State* L) {
  lua_newtable(L);
  lua_pushcfunction(L, encode);
  lua_setfield(L, -2, "encode");
  lua_pushcfunction(L, decode);
  lua_setfield(L, -2, "decode");
}

}  // namespace dllm::lua
