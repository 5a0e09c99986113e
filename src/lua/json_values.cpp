#include "lua/state.h"

#include "lua/sandbox.h"

#include <lauxlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace dllm::lua {
namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kStepsPerValue = 2;

[[noreturn]] void raise_invalid(lua_State* L, const std::string& message) {
  raise(L, "invalid_argument", message);
}

// Counts values and depth in both directions.
class Count {
public:
  explicit Count(lua_State* L) : L_(L) {}

  void value(size_t bytes = 0) {
    if (++values_ > kMostJsonValues)
      raise_invalid(L_, "JSON has more than " + std::to_string(kMostJsonValues) + " values");
    charge(L_, kStepsPerValue + static_cast<int64_t>(bytes) / kBytesPerStep);
  }
  void depth(size_t levels) {
    if (levels > static_cast<size_t>(kMostJsonDepth))
      raise_invalid(L_, "JSON is nested deeper than " + std::to_string(kMostJsonDepth));
    luaL_checkstack(L_, 8, "JSON");
  }

private:
  lua_State* L_;
  int64_t values_ = 0;
};

// ---- text to values: pushed as the parser reads them, so that no tree is built first ----

class Pusher final : public nlohmann::json_sax<Json> {
public:
  explicit Pusher(lua_State* L) : L_(L), count_(L) {}

  bool null() override {
    count_.value();
    lua_pushnil(L_);
    return placed();
  }
  bool boolean(bool value) override {
    count_.value();
    lua_pushboolean(L_, value);
    return placed();
  }
  bool number_integer(number_integer_t value) override {
    count_.value();
    lua_pushinteger(L_, value);
    return placed();
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number_integer(static_cast<number_integer_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    count_.value();
    lua_pushnumber(L_, value);
    return placed();
  }
  bool string(string_t& value) override {
    count_.value(value.size());
    lua_pushlstring(L_, value.data(), value.size());
    return placed();
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    charge(L_, static_cast<int64_t>(name.size()) / kBytesPerStep);
    lua_pushlstring(L_, name.data(), name.size());
    return true;
  }
  bool start_object(size_t) override { return open(kObject); }
  bool start_array(size_t) override { return open(0); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception&) override {
    byte_ = byte;
    return false;
  }
  size_t byte() const { return byte_; }

private:
  static constexpr lua_Integer kObject = -1;

  bool open(lua_Integer kind) {
    count_.value();
    count_.depth(open_.size() + 1);
    lua_newtable(L_);
    open_.push_back(kind);
    return true;
  }
  bool close() {
    open_.pop_back();
    return placed();
  }
  // Stores the value on top in the innermost table, which is below it, or below its key.
  bool placed() {
    if (open_.empty()) return true;
    if (open_.back() == kObject)
      lua_rawset(L_, -3);
    else
      lua_rawseti(L_, -2, ++open_.back());
    return true;
  }

  lua_State* L_;
  Count count_;
  std::vector<lua_Integer> open_; // kObject, or the number of items of an array
  size_t byte_ = 0;
};

// Returns the bytes of the longest part between quotes, commas and brackets. No text or number is
// longer.
size_t longest_word(lua_State* L, std::string_view text) {
  constexpr size_t kPiece = size_t{1} << 16;
  size_t longest = 0, begin = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i % kPiece == kPiece - 1) charge(L, static_cast<int64_t>(kPiece) / kBytesPerStep);
    const char c = text[i];
    if (in_text && c == '\\')
      ++i;
    else if (c == '"')
      in_text = !in_text;
    else if (in_text || (c != ',' && c != ':' && c != '[' && c != ']' && c != '{' && c != '}'))
      continue;
    if (c == '\\') continue;
    longest = std::max(longest, i - begin);
    begin = i;
  }
  return std::max(longest, text.size() - begin);
}

// ---- values to text ----

class Writer {
public:
  explicit Writer(lua_State* L) : L_(L), count_(L) {}

  void write(int index, size_t depth) {
    luaL_checkstack(L_, 8, "JSON");
    if (out_.size() > kMostJsonBytes)
      raise_invalid(L_, "JSON has more than " + std::to_string(kMostJsonBytes) + " bytes");
    switch (lua_type(L_, index)) {
    case LUA_TNIL:
      count_.value();
      out_ += "null";
      return;
    case LUA_TBOOLEAN:
      count_.value();
      out_ += lua_toboolean(L_, index) != 0 ? "true" : "false";
      return;
    case LUA_TNUMBER: return number(index);
    case LUA_TSTRING: return text(index);
    case LUA_TTABLE: return table(index, depth + 1);
    default:
      raise_invalid(L_, std::string("a ") + luaL_typename(L_, index) +
                            " has no JSON form: options take text, numbers, booleans and "
                            "tables of these, and a schedule by its name");
    }
  }
  std::string take() { return std::move(out_); }

private:
  void number(int index) {
    count_.value();
    if (lua_isinteger(L_, index) == 0) {
      out_ += Json(lua_tonumber(L_, index)).dump();
      return;
    }
    std::array<char, 24> room;
    const auto end =
        std::to_chars(room.data(), room.data() + room.size(), lua_tointeger(L_, index));
    out_.append(room.data(), end.ptr);
  }

  void text(int index) {
    size_t size = 0;
    const char* data = lua_tolstring(L_, index, &size);
    count_.value(size);
    if (out_.size() + size > kMostJsonBytes)
      raise_invalid(L_, "JSON has more than " + std::to_string(kMostJsonBytes) + " bytes");
    out_ += Json(std::string(data, size)).dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  // Returns n for a table with only the keys 1..n, else 0.
  lua_Integer sequence_length(int index) {
    const auto length = static_cast<lua_Integer>(lua_rawlen(L_, index));
    lua_Integer keys = 0;
    for (lua_pushnil(L_); lua_next(L_, index) != 0; lua_pop(L_, 1)) {
      charge(L_, 1);
      ++keys;
    }
    return keys == length ? length : 0;
  }

  void table(int index, size_t depth) {
    count_.value();
    count_.depth(depth);
    if (const lua_Integer length = sequence_length(index); length > 0) {
      for (lua_Integer i = 1; i <= length; ++i) {
        out_ += i == 1 ? '[' : ',';
        lua_rawgeti(L_, index, i);
        write(lua_gettop(L_), depth);
        lua_pop(L_, 1);
      }
      out_ += ']';
      return;
    }
    out_ += '{';
    bool first = true;
    for (lua_pushnil(L_); lua_next(L_, index) != 0; lua_pop(L_, 1)) {
      if (!first) out_ += ',';
      first = false;
      const int value = lua_gettop(L_);
      lua_pushvalue(L_, -2); // lua_tolstring may change the key it converts
      if (lua_tostring(L_, -1) == nullptr) lua_pushstring(L_, luaL_typename(L_, -1));
      text(lua_gettop(L_));
      out_ += ':';
      write(value, depth);
      lua_settop(L_, value);
    }
    out_ += '}';
  }

  lua_State* L_;
  Count count_;
  std::string out_;
};

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

} // namespace

void push_json(lua_State* L, std::string_view text) {
  constexpr int64_t kCopies = 8; // of one token: in the parser, and in its error message
  luaL_checkstack(L, 8, "JSON");
  const auto longest = static_cast<int64_t>(longest_word(L, text)), room = room_left(shared(L));
  if (longest > room / kCopies)
    raise(L, "resource_exhausted",
          "JSON has a text of " + std::to_string(longest) + " bytes: " + std::to_string(room) +
              " bytes are left",
          "raise option memory_limit");
  Pusher pusher(L);
  if (!Json::sax_parse(text.begin(), text.end(), &pusher)) {
    raise_invalid(L, "the text is not valid JSON near byte " + std::to_string(pusher.byte()));
  }
}

std::string to_json(lua_State* L, int index) {
  Writer writer(L);
  writer.write(lua_absindex(L, index), 0);
  return writer.take();
}

void open_json(lua_State* L) {
  lua_newtable(L);
  lua_pushcfunction(L, encode);
  lua_setfield(L, -2, "encode");
  lua_pushcfunction(L, decode);
  lua_setfield(L, -2, "decode");
}

} // namespace dllm::lua
