#pragma once
// The kinds of constraints of a request for text, as data. A kind is an option of a request and a
// function that makes a pattern of its value. A new kind is a source file with such a function,
// and a row in constraint_kinds.cpp.

#include "base/options.h"

#include <optional>
#include <string>
#include <vector>

namespace dllm::generate {

// Returns the options of all kinds.
std::vector<OptionSpec> constraint_options();

// Returns "regex, choices or json_schema".
std::string constraint_names();

// Returns the pattern that the text of a request has to match; nothing without a constraint. Fails
// with invalid_argument for a request with two kinds, and for a value that its kind refuses.
std::optional<std::string> constraint_pattern(const Options& request);

// ---- the kinds ----

// Returns a pattern of texts, one of which the text is (choices.cpp).
std::string pattern_of_choices(const std::vector<std::string>& choices);
// Returns a pattern of JSON of a schema (json_schema.cpp). Members come in the order of the schema.
// Fails with invalid_argument naming the place of a keyword that is not supported.
std::string pattern_of_schema(const std::string& schema);

} // namespace dllm::generate
