#pragma once
// The formats of JSON texts that have a pattern (keyword format of JSON Schema).

#include <string>
#include <string_view>

namespace dllm::generate {

// Returns the pattern of the texts of a format; "": no pattern of it is known. A pattern may leave
// out valid texts that are rare, for example years before 1000.
std::string pattern_of_format(std::string_view format);

// Returns "date, time, ... or uuid".
std::string format_names();

} // namespace dllm::generate
