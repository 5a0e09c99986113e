#pragma once
// One slot of a trace as an SVG picture: position from left to right, step from top to bottom, colour by state and
// confidence.

#include "trace.h"

#include <string>

namespace dllm::cli {

// At most so many columns and rows are drawn; more positions share a column, more steps are thinned out.
inline constexpr size_t kMostColumns = 320, kMostRows = 240;

std::string heat_map_svg(const Trace& trace, const TraceSlot& slot);

// Text inside XML: markup escaped, what XML forbids replaced.
std::string xml_text(const std::string& text);

}  // namespace dllm::cli
