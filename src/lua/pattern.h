#pragma once
// A Pattern matches the patterns of Lua 5.4 (reference manual, 6.4.1). Every compared character is
// charged to the script's budget, so that backtracking can be stopped.

#include <lua.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dllm::lua {

class Pattern {
public:
  // The texts must outlive the object. The caller removes a leading ^ and handles it.
  Pattern(lua_State* L, std::string_view subject, std::string_view pattern)
      : L_(L), begin_(subject.data()), end_(subject.data() + subject.size()),
        pattern_(pattern.data()), pattern_end_(pattern.data() + pattern.size()) {}

  // Returns the end of a match that starts at `at`, or null. Raises for a malformed pattern and
  // when the call must stop.
  const char* match(const char* at);
  // Pushes capture i, or the whole match begin..end when the pattern has no captures.
  void push_capture(int i, const char* begin, const char* end);
  // Pushes all captures and returns their number. Without captures it pushes the whole match,
  // unless `begin` is null.
  int push_captures(const char* begin, const char* end);
  // Charges the compared characters that are not charged yet. Later errors are raised in L.
  void charge_rest(lua_State* L);

private:
  static constexpr int kMostCaptures = 32;
  static constexpr int kMostDepth = 200;
  static constexpr ptrdiff_t kOpen = -1, kPosition = -2;

  struct Capture {
    const char* begin;
    ptrdiff_t size;
  };

  // s: position in the subject; p: position in the pattern. Every function returns the end of a
  // match of the pattern from p on, or null.
  const char* match_here(const char* s, const char* p);
  const char* match_escape(const char* s, const char* p, bool& handled);
  const char* repeat_most(const char* s, const char* p, const char* next);
  const char* repeat_least(const char* s, const char* p, const char* next);
  const char* open_capture(const char* s, const char* p, ptrdiff_t size);
  const char* close_capture(const char* s, const char* p);
  const char* balance(const char* s, const char* p);
  const char* same_as_capture(const char* s, char digit);
  int closed_capture(char digit);

  const char* item_end(const char* p);                       // end of a single character class
  bool fits(const char* s, const char* p, const char* next); // *s is in class [p, next)
  // set: the position of '['. close: the position of ']'.
  bool in_set(int c, const char* set, const char* close) const;
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
