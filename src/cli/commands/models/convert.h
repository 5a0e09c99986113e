#pragma once
// The work that dllm convert and dllm export share.

#include "../../command.h"

#include <cstdint>
#include <string>

namespace dllm::cli {

// Returns "1.2 MiB of 90 MiB" for the status line; "" for an unknown total.
std::string copied_text(int64_t done, int64_t total);
// Writes the model at `from` in another form with the options of kind quantize, and prints the
// report. Returns the exit code.
int write_form(Context& context, const std::string& from, const std::string& to);

} // namespace dllm::cli
