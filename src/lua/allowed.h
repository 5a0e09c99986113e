#pragma once
// What a script may use below level full: lists of what is allowed, so that a new function or option is refused until
// someone has decided what it reaches. tests/unit/lua/allowed_test.cpp finds what is in no list.

#include "lua/state.h"

#include <string>
#include <string_view>

namespace dllm::lua {

enum class FunctionUse {
  every_level,
  not_safe, // writes to files, or to the host's standard error: from level files on
  full_only // loads native code, or looks at the whole machine
};
FunctionUse function_use(std::string_view name); // in no list: full_only

// Is this parameter of a function a path? Texts are, unless their name says that they are a name.
bool is_path(const Param& param);

enum class OptionUse {
  plain,   // any value
  path,    // a file or folder, checked against the level
  default_ // its default value alone: it loads native code, or is in no list
};
// is_number: a whole or real number, or a yes or no. A number is plain in a kind whose numbers are sizes, seeds and rates.
OptionUse option_use(std::string_view kind, std::string_view key, bool is_number);

} // namespace dllm::lua
