#pragma once
// A file of metrics after a crash: lines of steps that are taken again.

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::train {

// The whole lines of `text` that are not of a step behind `step`.
std::string without_undone_lines(std::string_view text, int64_t step);

// Drops the lines of steps behind `step`, and a last line that a kill cut. The file is replaced in
// one step: a kill leaves it as it was or without these lines. True when it was replaced: what was
// open writes into the old one. A link stays one, anything but a regular file is left alone.
bool drop_undone_lines(const std::string& path, int64_t step);

} // namespace dllm::train
