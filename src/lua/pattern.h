#pragma once
// Lua's patterns, matched in bounded steps: every character compared is charged to the script's budget, so that
// backtracking can be stopped. The language is that of Lua 5.4 (reference manual, 6.4.1).

#include <lua.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dllm::lua {

class Pattern {
public:
  // The texts must outlive the object. A leading ^ belongs to the caller.
  Pattern(lua_State* L, std::string_view subject, std::string_view pattern)
      : L_(L), begin_(subject.data()), end_(subject.data() + subject.size()),
        pattern_(pattern.data()), pattern_end_(pattern.data() + pattern.size()) {}

  // The end of a match that starts at `at`, or null. Raises for a malformed pattern and when the call must stop.
  const char* match(const char* at);
  // Pushes capture i; the whole match begin..end when the pattern has no captures.
  void push_capture(int i, const char* begin, const char* end);
  // Pushes all: at least one value when `begin` is not null.
  int push_captures(const char* begin, const char* end);
  // Charges what was compared and not charged yet. Errors are raised in this coroutine from now on.
  void charge_rest(lua_State* L);

private:
  static constexpr int kMostCaptures = 32;
  static constexpr int kMostDepth = 200;
  static constexpr ptrdiff_t kOpen = -1, kPosition = -2;

  struct Capture {
    const char* begin;
    ptrdiff_t size;
  };

  // p: a place in the pattern. Every function returns the end of the match of what follows p, or null.
  const char* match_here(const char* s, const char* p);
  const char* match_escape(const char* s, const char* p, bool& handled);
  const char* repeat_most(const char* s, const char* p, const char* next);
  const char* repeat_least(const char* s, const char* p, const char* next);
  const char* open_capture(const char* s, const char* p, ptrdiff_t size);
  const char* close_capture(const char* s, const char* p);
  const char* balance(const char* s, const char* p);
  const char* same_as_capture(const char* s, char digit);
  int closed_capture(char digit);

  const char* item_end(const char* p);                          // behind a single character class
  bool fits(const char* s, const char* p, const char* next);    // one character against one class
  bool in_set(int c, const char* set, const char* close) const; // set: at '[', close: at ']'
  void tick() {
    if (--until_charge_ < 0) charge_rest(L_);
  }

  static constexpr int64_t kTicksPerCharge = 256;

  lua_State* L_;
  const char *begin_, *end_, *pattern_, *pattern_end_;
  int64_t until_charge_ = kTicksPerCharge;
  int depth_ = 0, level_ = 0;
  Capture captures_[kMostCaptures];
};

} // namespace dllm::lua
