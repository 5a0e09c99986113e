#pragma once
// Serves the page of one run or of several on this machine, while they train.

#include "../../command.h"

#include <string>
#include <vector>

namespace dllm::cli {

// Prints the address and serves until the task of the command is cancelled. Returns the exit code.
int watch_runs(const Context& context, const std::vector<std::string>& runs);

} // namespace dllm::cli
