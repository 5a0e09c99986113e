#pragma once
// The lines of the log that the program shows.

#include <cstdint>
#include <string>

namespace dllm::cli {

// From now on warnings and errors of the library are lines of standard error, each text once: a
// command may read its data twice.
void show_log();
// Prints a line of the log unless its text was printed before. before: what clears a status line.
void print_once(int32_t level, const std::string& line, const char* before = "");

} // namespace dllm::cli
