#pragma once
// What a host in any language may get wrong, tried on one function.

#include "fixtures.h"

namespace sweep {

struct Report {
  int cases = 0;
  std::vector<std::string> failures;
};

struct Settings {
  bool stamps = false; // the library recognizes released handles (debug builds)
  bool lua = true;     // the library has Lua
};

// `progress` gets the name of the case before each call, for the parent of a crashed process.
Report run_cases(const Function& function, Fixtures& fixtures, const Settings& settings,
                 char* progress, size_t progress_size);

} // namespace sweep
