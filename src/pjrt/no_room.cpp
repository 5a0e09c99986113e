// The numbers in what compilers say of programs that are too big.

#include "pjrt/target_engine.h"

#include <fmt/core.h>

#include <cstdlib>
#include <regex>

namespace dllm::pjrt {
namespace {

// "48.00G" "512.5M" "1024": powers of 1024.
int64_t bytes_in(const std::string& number, const std::string& unit) {
  double value = std::strtod(number.c_str(), nullptr);
  for (const char* larger : {"K", "M", "G", "T"}) {
    if (unit.empty()) break;
    value *= 1024;
    if (unit == larger) break;
  }
  return static_cast<int64_t>(value);
}

} // namespace

// libtpu: "... required for HLO temporaries (48.00G) exceeds available HBM (15.75G)", older
// "Used 20.5G of 15.75G hbm".
std::string explain_no_room(const std::string& text) {
  static const std::regex kForms[] = {
      std::regex("\\(([0-9.]+)([KMGT]?)\\) exceeds available \\w+ \\(([0-9.]+)([KMGT]?)\\)"),
      std::regex("[Uu]sed ([0-9.]+)([KMGT]?) of ([0-9.]+)([KMGT]?)")};
  std::smatch parts;
  for (const std::regex& form : kForms) {
    if (!std::regex_search(text, parts, form)) continue;
    return fmt::format("does not fit: needs {} bytes, has {} bytes: {}",
                       bytes_in(parts[1], parts[2]), bytes_in(parts[3], parts[4]), text);
  }
  return text;
}

} // namespace dllm::pjrt
