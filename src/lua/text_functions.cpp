#include "lua/sandbox.h"

#include "lua/pattern.h"

#include <lauxlib.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <new>
#include <string_view>
#include <type_traits>

namespace dllm::lua {
namespace {

constexpr size_t kPiece = size_t{1} << 16; // bytes between two looks

std::string_view check_text(lua_State* L, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

// Converts a Lua position (1: the first byte, -1: the last) to the index of the byte to start at.
// The index may be the size or larger.
size_t start_at(lua_Integer position, size_t size) {
  if (position > 0) return static_cast<size_t>(position) - 1;
  if (position == 0 || position < -static_cast<lua_Integer>(size)) return 0;
  return size - static_cast<size_t>(-position);
}

// ---- find, match ----

size_t find_plain(lua_State* L, std::string_view text, std::string_view wanted, size_t from) {
  if (wanted.size() > text.size()) return std::string_view::npos;
  int64_t uncharged = 0;
  for (size_t at = from; at <= text.size() - wanted.size();) {
    if (wanted.empty()) return at;
    // The first byte is searched in pieces, then the other bytes are compared.
    const size_t last = std::min(text.size() - wanted.size() + 1, at + kPiece);
    const void* hit = std::memchr(text.data() + at, wanted[0], last - at);
    const size_t found =
        hit == nullptr ? last : static_cast<size_t>(static_cast<const char*>(hit) - text.data());
    uncharged += static_cast<int64_t>(found - at) / kBytesPerStep + 1;
    if (hit != nullptr) {
      if (std::memcmp(text.data() + found, wanted.data(), wanted.size()) == 0) return found;
      uncharged += static_cast<int64_t>(wanted.size()) / kBytesPerStep;
    }
    if (uncharged > kStepsPerLook) {
      charge(L, uncharged);
      uncharged = 0;
    }
    at = hit == nullptr ? last : found + 1;
  }
  return std::string_view::npos;
}

int find_or_match(lua_State* L, bool find) {
  const std::string_view text = check_text(L, 1);
  std::string_view pattern = check_text(L, 2);
  const size_t from = start_at(luaL_optinteger(L, 3, 1), text.size());
  if (from > text.size()) {
    luaL_pushfail(L);
    return 1;
  }
  charge(L, static_cast<int64_t>(pattern.size()) / kBytesPerStep + 1);
  if (find &&
      (lua_toboolean(L, 4) != 0 || pattern.find_first_of("^$*+?.([%-") == std::string_view::npos)) {
    const size_t at = find_plain(L, text, pattern, from);
    if (at == std::string_view::npos) {
      luaL_pushfail(L);
      return 1;
    }
    lua_pushinteger(L, static_cast<lua_Integer>(at) + 1);
    lua_pushinteger(L, static_cast<lua_Integer>(at + pattern.size()));
    return 2;
  }
  const bool anchored = !pattern.empty() && pattern[0] == '^';
  if (anchored) pattern.remove_prefix(1);
  Pattern state(L, text, pattern);
  const char *at = text.data() + from, *end = text.data() + text.size();
  do {
    const char* stop = state.match(at);
    if (stop == nullptr) continue;
    state.charge_rest(L);
    if (!find) return state.push_captures(at, stop);
    lua_pushinteger(L, at - text.data() + 1);
    lua_pushinteger(L, stop - text.data());
    return state.push_captures(nullptr, nullptr) + 2;
  } while (at++ < end && !anchored);
  state.charge_rest(L);
  luaL_pushfail(L);
  return 1;
}

int find(lua_State* L) {
  return find_or_match(L, true);
}
int match(lua_State* L) {
  return find_or_match(L, false);
}

// ---- gmatch ----

struct Walk {
  Pattern state;
  const char *at, *end, *last_match;
};

// A Walk is stored in a userdata without a finalizer.
static_assert(std::is_trivially_destructible_v<Walk>);

int next_match(lua_State* L) {
  auto& walk = *static_cast<Walk*>(lua_touserdata(L, lua_upvalueindex(3)));
  walk.state.charge_rest(L);
  for (; walk.at <= walk.end; ++walk.at) {
    const char* stop = walk.state.match(walk.at);
    if (stop == nullptr || stop == walk.last_match) continue;
    const char* begin = walk.at;
    walk.at = walk.last_match = stop;
    return walk.state.push_captures(begin, stop);
  }
  return 0;
}

int gmatch(lua_State* L) {
  const std::string_view text = check_text(L, 1), pattern = check_text(L, 2);
  const size_t from = start_at(luaL_optinteger(L, 3, 1), text.size());
  lua_settop(L, 2); // the closure keeps both texts alive
  void* room = lua_newuserdatauv(L, sizeof(Walk), 0);
  new (room) Walk{Pattern(L, text, pattern), text.data() + std::min(from, text.size() + 1),
                  text.data() + text.size(), nullptr};
  lua_pushcclosure(L, next_match, 3);
  return 1;
}

// ---- gsub ----

// Adds the replacement of one match to the buffer; the third argument of gsub selects it.
void add_replacement_text(lua_State* L, Pattern& state, luaL_Buffer& out, std::string_view news,
                          const char* begin, const char* end) {
  for (size_t at = 0; at < news.size();) {
    const size_t escape = std::min(news.find('%', at), news.size());
    luaL_addlstring(&out, news.data() + at, escape - at);
    if (escape == news.size()) return;
    const char c = escape + 1 < news.size() ? news[escape + 1] : '\0';
    if (c == '%')
      luaL_addchar(&out, '%');
    else if (c == '0')
      luaL_addlstring(&out, begin, static_cast<size_t>(end - begin));
    else if (c >= '1' && c <= '9') {
      state.push_capture(c - '1', begin, end);
      luaL_tolstring(L, -1, nullptr); // a position becomes a text
      lua_remove(L, -2);
      luaL_addvalue(&out);
    } else {
      luaL_error(L, "invalid use of '%%' in replacement string");
    }
    at = escape + 2;
  }
}

// Returns true when it added another text than the match.
bool add_replacement(lua_State* L, Pattern& state, luaL_Buffer& out, const char* begin,
                     const char* end) {
  switch (lua_type(L, 3)) {
  case LUA_TFUNCTION: {
    lua_pushvalue(L, 3);
    lua_call(L, state.push_captures(begin, end), 1);
    break;
  }
  case LUA_TTABLE:
    state.push_capture(0, begin, end);
    lua_gettable(L, 3);
    break;
  default: {
    const std::string_view news = check_text(L, 3);
    charge(L, static_cast<int64_t>(news.size()) / kBytesPerStep + 1);
    add_replacement_text(L, state, out, news, begin, end);
    return true;
  }
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(&out, begin, static_cast<size_t>(end - begin));
    return false;
  }
  if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  charge(L, static_cast<int64_t>(lua_rawlen(L, -1)) / kBytesPerStep + 1);
  luaL_addvalue(&out);
  return true;
}

int gsub(lua_State* L) {
  const std::string_view text = check_text(L, 1);
  std::string_view pattern = check_text(L, 2);
  const int type = lua_type(L, 3);
  luaL_argexpected(
      L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE,
      3, "string/function/table");
  const lua_Integer most = luaL_optinteger(L, 4, static_cast<lua_Integer>(text.size()) + 1);
  const bool anchored = !pattern.empty() && pattern[0] == '^';
  if (anchored) pattern.remove_prefix(1);
  const char *at = text.data(), *end = at + text.size(), *last_match = nullptr;
  lua_Integer count = 0;
  bool changed = false;
  Pattern state(L, text, pattern);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  while (count < most) {
    const char* stop = state.match(at);
    if (stop != nullptr && stop != last_match) {
      ++count;
      changed = add_replacement(L, state, out, at, stop) || changed;
      at = last_match = stop;
    } else if (at < end) {
      luaL_addchar(&out, *at++);
    } else {
      break;
    }
    if (anchored) break;
  }
  state.charge_rest(L);
  if (!changed) {
    lua_pushvalue(L, 1);
  } else {
    luaL_addlstring(&out, at, static_cast<size_t>(end - at));
    luaL_pushresult(&out);
  }
  lua_pushinteger(L, count);
  return 2;
}

// ---- rep ----

int rep(lua_State* L) {
  const std::string_view text = check_text(L, 1);
  const lua_Integer times = luaL_checkinteger(L, 2);
  const std::string_view between = lua_isnoneornil(L, 3) ? std::string_view() : check_text(L, 3);
  const size_t each = text.size() + between.size();
  if (times <= 0 || (each == 0)) {
    lua_pushliteral(L, "");
    return 1;
  }
  const size_t limit = shared(L).level == Level::full ? size_t{1} << 62 : kMostText;
  if (static_cast<size_t>(times) > limit / each) return luaL_error(L, "resulting string too large");
  const size_t total = static_cast<size_t>(times) * each - between.size();
  luaL_Buffer out;
  char* to = luaL_buffinitsize(L, &out, total);
  // Writes one period, then repeatedly copies the written bytes, in pieces between two checks.
  std::copy(text.begin(), text.end(), to);
  if (times > 1) std::copy(between.begin(), between.end(), to + text.size());
  for (size_t filled = std::min(each, total); filled < total;) {
    const size_t piece =
        std::min({filled / each * each, total - filled, std::max(kPiece / each * each, each)});
    std::memcpy(to + filled, to, piece);
    filled += piece;
    charge(L, static_cast<int64_t>(piece) / kBytesPerStep);
  }
  luaL_pushresultsize(&out, total);
  return 1;
}

// ---- functions of Lua that walk their arguments ----

// Charges all texts among the arguments, then calls Lua's function (upvalue 1). Upvalue 2: most
// bytes of the first argument.
int charged(lua_State* L) {
  const int count = lua_gettop(L);
  int64_t bytes = 0;
  for (int i = 1; i <= count; ++i) {
    if (lua_type(L, i) == LUA_TSTRING) bytes += static_cast<int64_t>(lua_rawlen(L, i));
  }
  const lua_Integer most = lua_tointeger(L, lua_upvalueindex(2));
  if (most > 0 && lua_type(L, 1) == LUA_TSTRING &&
      static_cast<lua_Integer>(lua_rawlen(L, 1)) > most) {
    return luaL_error(L, "a format has %I bytes, expected at most %I",
                      static_cast<LUAI_UACINT>(lua_rawlen(L, 1)), static_cast<LUAI_UACINT>(most));
  }
  charge(L, bytes / kBytesPerStep + count);
  // It runs in this frame, so that messages name the script's call.
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void charge_functions(lua_State* L, const char* library, std::initializer_list<const char*> names,
                      lua_Integer most) {
  lua_getglobal(L, library);
  for (const char* name : names) {
    lua_getfield(L, -1, name);
    lua_pushinteger(L, most);
    lua_pushcclosure(L, charged, 2);
    lua_setfield(L, -2, name);
  }
  lua_pop(L, 1);
}

} // namespace

void open_text_functions(lua_State* L) {
  constexpr luaL_Reg kOwn[] = {
      {"find", find}, {"match", match}, {"gmatch", gmatch}, {"gsub", gsub}, {"rep", rep}};
  lua_getglobal(L, "string");
  for (const luaL_Reg& entry : kOwn) {
    lua_pushcfunction(L, entry.func);
    lua_setfield(L, -2, entry.name);
  }
  lua_pop(L, 1);
  charge_functions(L, "string", {"upper", "lower", "reverse", "unpack"}, 0);
  charge_functions(L, "utf8", {"len", "offset", "codepoint"}, 0);
  if (shared(L).level == Level::full) return;
  charge_functions(L, "string", {"format", "pack", "packsize"}, 1 << 16);
  charge_functions(L, "os", {"date"}, 1 << 10);
}

} // namespace dllm::lua
