#include "lua/pattern.h"

#include "lua/sandbox.h"

#include <lauxlib.h>

#include <cctype>
#include <cstring>

namespace dllm::lua {
namespace {

int byte(const char* at) {
  return static_cast<unsigned char>(*at);
}

bool in_class(int c, int name) {
  bool is_member = false;
  switch (std::tolower(name)) {
  case 'a': is_member = std::isalpha(c) != 0; break;
  case 'c': is_member = std::iscntrl(c) != 0; break;
  case 'd': is_member = std::isdigit(c) != 0; break;
  case 'g': is_member = std::isgraph(c) != 0; break;
  case 'l': is_member = std::islower(c) != 0; break;
  case 'p': is_member = std::ispunct(c) != 0; break;
  case 's': is_member = std::isspace(c) != 0; break;
  case 'u': is_member = std::isupper(c) != 0; break;
  case 'w': is_member = std::isalnum(c) != 0; break;
  case 'x': is_member = std::isxdigit(c) != 0; break;
  case 'z': is_member = c == 0; break; // as Lua still has it
  default: return name == c;
  }
  return std::isupper(name) != 0 ? !is_member : is_member;
}

// Counts the depth of recursion, also when an exception ends it.
struct Deeper {
  explicit Deeper(int& depth) : depth(depth) { ++depth; }
  ~Deeper() { --depth; }
  int& depth;
};

} // namespace

void Pattern::charge_rest(lua_State* L) {
  L_ = L;
  const int64_t ticks = kTicksPerCharge - until_charge_;
  until_charge_ = kTicksPerCharge;
  charge(L, ticks);
}

const char* Pattern::match(const char* at) {
  level_ = 0;
  depth_ = 0;
  return match_here(at, pattern_);
}

const char* Pattern::item_end(const char* p) {
  if (*p == '%') {
    if (p + 1 >= pattern_end_) luaL_error(L_, "malformed pattern (ends with '%%')");
    return p + 2;
  }
  if (*p != '[') return p + 1;
  ++p;
  if (p < pattern_end_ && *p == '^') ++p;
  do { // a ']' right after the opening is an ordinary character
    if (p >= pattern_end_) luaL_error(L_, "malformed pattern (missing ']')");
    tick();
    const char c = *p++;
    if (c == '%' && p < pattern_end_) ++p;
  } while (p >= pattern_end_ || *p != ']');
  return p + 1;
}

bool Pattern::in_set(int c, const char* set, const char* close) const {
  bool is_member = true;
  const char* p = set + 1;
  if (*p == '^') {
    is_member = false;
    ++p;
  }
  for (; p < close; ++p) {
    if (*p == '%') {
      ++p;
      if (in_class(c, byte(p))) return is_member;
    } else if (p + 2 < close && p[1] == '-') {
      if (byte(p) <= c && c <= byte(p + 2)) return is_member;
      p += 2;
    } else if (byte(p) == c) {
      return is_member;
    }
  }
  return !is_member;
}

bool Pattern::fits(const char* s, const char* p, const char* next) {
  tick();
  if (s >= end_) return false;
  switch (*p) {
  case '.': return true;
  case '%': return in_class(byte(s), byte(p + 1));
  case '[':
    until_charge_ -= (next - p) / 8; // a long set costs more
    return in_set(byte(s), p, next - 1);
  default: return *p == *s;
  }
}

const char* Pattern::match_here(const char* s, const char* p) {
  const Deeper deeper(depth_);
  if (depth_ > kMostDepth) luaL_error(L_, "pattern too complex");
  while (p != pattern_end_) {
    if (*p == '(') {
      const bool position = p + 1 < pattern_end_ && p[1] == ')';
      return position ? open_capture(s, p + 2, kPosition) : open_capture(s, p + 1, kOpen);
    }
    if (*p == ')') return close_capture(s, p + 1);
    if (*p == '$' && p + 1 == pattern_end_) return s == end_ ? s : nullptr;
    if (*p == '%' && p + 1 < pattern_end_) {
      bool handled = false;
      const char* after = match_escape(s, p, handled);
      if (handled) {
        if (after == nullptr) return nullptr;
        s = after;
        p = p[1] == 'b' ? p + 4 : p[1] == 'f' ? item_end(p + 2) : p + 2;
        continue;
      }
    }
    const char* next = item_end(p);
    const char suffix = next < pattern_end_ ? *next : '\0';
    if (!fits(s, p, next)) {
      if (suffix != '*' && suffix != '?' && suffix != '-') return nullptr;
      p = next + 1; // none of it
    } else if (suffix == '*') {
      return repeat_most(s, p, next);
    } else if (suffix == '+') {
      return repeat_most(s + 1, p, next);
    } else if (suffix == '-') {
      return repeat_least(s, p, next);
    } else if (suffix == '?') {
      if (const char* found = match_here(s + 1, next + 1)) return found;
      p = next + 1;
    } else {
      ++s;
      p = next;
    }
  }
  return s;
}

const char* Pattern::repeat_most(const char* s, const char* p, const char* next) {
  ptrdiff_t count = 0;
  while (fits(s + count, p, next)) ++count;
  for (; count >= 0; --count) {
    tick();
    if (const char* found = match_here(s + count, next + 1)) return found;
  }
  return nullptr;
}

const char* Pattern::repeat_least(const char* s, const char* p, const char* next) {
  for (;; ++s) {
    if (const char* found = match_here(s, next + 1)) return found;
    if (!fits(s, p, next)) return nullptr;
  }
}

// Matches %b %f %1 and returns the end of the match.
const char* Pattern::match_escape(const char* s, const char* p, bool& handled) {
  const char name = p[1];
  handled = name == 'b' || name == 'f' || std::isdigit(byte(p + 1)) != 0;
  if (!handled) return nullptr;
  if (name == 'b') return balance(s, p + 2);
  if (name != 'f') return same_as_capture(s, name);
  p += 2;
  if (p >= pattern_end_ || *p != '[') luaL_error(L_, "missing '[' after '%%f' in pattern");
  const char* close = item_end(p) - 1;
  const int before = s == begin_ ? 0 : byte(s - 1), here = s == end_ ? 0 : byte(s);
  tick();
  return !in_set(before, p, close) && in_set(here, p, close) ? s : nullptr;
}

const char* Pattern::balance(const char* s, const char* p) {
  if (pattern_end_ - p < 2) luaL_error(L_, "malformed pattern (missing arguments to '%%b')");
  if (s >= end_ || *s != p[0]) return nullptr;
  int64_t open = 1;
  while (++s < end_) {
    tick();
    if (*s == p[1]) {
      if (--open == 0) return s + 1;
    } else if (*s == p[0]) {
      ++open;
    }
  }
  return nullptr;
}

const char* Pattern::open_capture(const char* s, const char* p, ptrdiff_t size) {
  if (level_ >= kMostCaptures) luaL_error(L_, "too many captures");
  captures_[level_++] = {s, size};
  const char* found = match_here(s, p);
  if (found == nullptr) --level_;
  return found;
}

const char* Pattern::close_capture(const char* s, const char* p) {
  int i = level_ - 1;
  while (i >= 0 && captures_[i].size != kOpen) --i;
  if (i < 0) luaL_error(L_, "invalid pattern capture");
  captures_[i].size = s - captures_[i].begin;
  const char* found = match_here(s, p);
  if (found == nullptr) captures_[i].size = kOpen;
  return found;
}

int Pattern::closed_capture(char digit) {
  const int i = digit - '1';
  if (i < 0 || i >= level_ || captures_[i].size == kOpen)
    luaL_error(L_, "invalid capture index %%%d", i + 1);
  return i;
}

const char* Pattern::same_as_capture(const char* s, char digit) {
  const Capture& capture = captures_[closed_capture(digit)];
  if (capture.size < 0) return nullptr; // a position is not a text
  until_charge_ -= capture.size / 64;
  tick();
  if (end_ - s < capture.size ||
      std::memcmp(capture.begin, s, static_cast<size_t>(capture.size)) != 0)
    return nullptr;
  return s + capture.size;
}

void Pattern::push_capture(int i, const char* begin, const char* end) {
  if (i >= level_) {
    if (i != 0) luaL_error(L_, "invalid capture index %%%d", i + 1);
    lua_pushlstring(L_, begin, static_cast<size_t>(end - begin));
    return;
  }
  const Capture& capture = captures_[i];
  if (capture.size == kOpen) luaL_error(L_, "unfinished capture");
  if (capture.size == kPosition)
    lua_pushinteger(L_, capture.begin - begin_ + 1);
  else
    lua_pushlstring(L_, capture.begin, static_cast<size_t>(capture.size));
}

int Pattern::push_captures(const char* begin, const char* end) {
  const int count = level_ == 0 && begin != nullptr ? 1 : level_;
  luaL_checkstack(L_, count, "too many captures");
  for (int i = 0; i < count; ++i) push_capture(i, begin, end);
  return count;
}

} // namespace dllm::lua
