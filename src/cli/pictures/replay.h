#pragma once
// A trace as one self-contained HTML file with a time slider.

#include "trace.h"

#include <string>
#include <string_view>

namespace dllm::cli {

// A page holds at most so many cells (steps x positions); of longer slots it shows every second, third, ... step
// and says so.
inline constexpr int64_t kMostPageCells = 4'000'000;

std::string replay_html(const Trace& trace, int64_t most_cells = kMostPageCells);

// Which steps are drawn when `most` are allowed: every n-th and always the last.
std::vector<size_t> thinned(size_t count, size_t most);

extern const std::string_view kReplayPage;  // replay.html

}  // namespace dllm::cli
