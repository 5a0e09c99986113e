#pragma once
// print_plain() writes numbers with a decimal point in every locale of the host. Only the changed
// files of Lua include this header (scripts/cmake/Lua.cmake).

#include <locale.h>
#include <stdio.h>

#include <cstddef>

namespace dllm::lua {

template <class T> int print_plain(char* to, std::size_t room, const char* format, T value) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(nullptr));
  const locale_t before = uselocale(plain);
  const int count = snprintf(to, room, format, value);
  uselocale(before);
  return count;
}

} // namespace dllm::lua

#undef l_sprintf
#define l_sprintf(to, room, format, value) dllm::lua::print_plain(to, room, format, value)
