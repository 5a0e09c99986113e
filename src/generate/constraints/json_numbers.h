#pragma once
// The numbers of a JSON schema: keywords minimum, maximum, exclusiveMinimum, exclusiveMaximum and
// multipleOf.

#include "base/json.h"

#include <string>

namespace dllm::generate {

// Returns the pattern of numbers with at most 18 digits before the point.
std::string pattern_of_any_number();

// Returns the pattern of the numbers that a schema allows; is_whole: those without a fraction.
// Numbers with bounds have no exponent and at most 15 digits up to the larger bound, so programs
// that read them as double compare them as decimals do. Fails with invalid_argument naming `where`,
// also when no number is in the range.
std::string pattern_of_numbers(const Json& schema, bool is_whole, const std::string& where);

} // namespace dllm::generate
