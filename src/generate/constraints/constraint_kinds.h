#pragma once
// The kinds of constraints of a request for text, as data. A kind is an option of a request and a
// function that makes a pattern of its value. A new kind is a function in a file of kinds/, and its
// name appears twice below. The program makes its flags from the options, and scripts may set them
// at every level. So the value of an option is a text, a list of texts or JSON, and never a path.

#include "base/options.h"

#include <optional>
#include <string>
#include <vector>

namespace dllm::generate {

struct ConstraintKind {
  OptionSpec option; // an empty value sets no constraint
  // Returns the pattern of a value that is not empty. Fails with invalid_argument for a value that
  // the kind refuses.
  std::string (*pattern)(const Options& request);
};

namespace constraint_files {

ConstraintKind choices();
ConstraintKind json_schema();
ConstraintKind regex();

inline constexpr ConstraintKind (*kTable[])() = {regex, choices, json_schema};

} // namespace constraint_files

// Returns the options of all kinds. Their group is "constraint".
std::vector<OptionSpec> constraint_options();

// Returns "regex, choices or json_schema".
std::string constraint_names();

// Returns the pattern that the text of a request has to match; nothing without a constraint. Fails
// with invalid_argument for a request with two kinds, and for a value that its kind refuses.
std::optional<std::string> constraint_pattern(const Options& request);

} // namespace dllm::generate
