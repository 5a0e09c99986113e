#pragma once
// The table of the filters of draws. A new filter is its file in this folder, and its name twice
// here.

#include "graph/filters/filter.h"

namespace dllm::graph::filter_files {

DrawFilter min_p();
DrawFilter top_k();
DrawFilter top_p();

// The order in which filters act.
inline constexpr DrawFilter (*kTable[])() = {top_k, top_p, min_p};

} // namespace dllm::graph::filter_files
