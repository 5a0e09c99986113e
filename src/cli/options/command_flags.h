#pragma once
// The flags of a command by the keys of the library.

#include "../command.h"
#include "flag_hints.h"

namespace dllm::cli {

// Returns the flags of a command, which must outlive them. A key of several kinds has none, unless
// the command has a flag of that name.
FlagOf flags_of(const Command& command);

} // namespace dllm::cli
