#pragma once
// The text of --help, the manual page, and completion for bash.

#include "option_list.h"

#include <string>

namespace dllm::cli {

std::string help_text(const Command& command, const OptionList& list);
// All commands with one line each.
std::string usage_text();
// The manual page dllm(1), in man(7)'s macros.
std::string manual_page();
// A script for bash that completes commands and options.
std::string bash_completion();

}  // namespace dllm::cli
