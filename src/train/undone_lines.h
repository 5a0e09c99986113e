#pragma once
// A file of metrics after a crash: lines of steps that are taken again.

#include <cstdint>
#include <string>

namespace dllm::train {

// Drops the lines of steps behind `step`, and a last line that a kill cut. The file is replaced in
// one step: a kill leaves it as it was or without these lines. True when it was replaced: what was
// open writes into the old one. Anything but a regular file is left alone.
bool drop_undone_lines(const std::string& path, int64_t step);

} // namespace dllm::train
