#pragma once
// These lists name the functions and options that a script may use below level full. A new function
// or option is refused until it is added to a list; tests/unit/lua/allowed_test.cpp finds functions
// and options that no list names.

#include "lua/state.h"

#include <string>
#include <string_view>

namespace dllm::lua {

// The levels at which a script may call a function.
enum class FunctionUse {
  every_level,
  not_safe, // levels files and full: it writes to files or to the host's standard error
  full_only // level full: it loads native code or reads facts about the machine
};
// Returns full_only for a function that no list names.
FunctionUse function_use(std::string_view name);

// Returns true for a parameter that is a path. Every text is a path unless its name is listed as a
// name, key, kind, role or value.
bool is_path(const Param& param);

// The values that an option may have below level full.
enum class OptionUse {
  plain,   // any value
  path,    // a file or folder that the level allows, or a list of NAME=FOLDER
  default_ // only its default value: it loads native code, or no list names it
};
// is_number: the value is a number or a boolean. In kinds whose numbers are sizes, seeds and rates
// every number is plain.
OptionUse option_use(std::string_view kind, std::string_view key, bool is_number);

} // namespace dllm::lua
