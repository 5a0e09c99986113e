#pragma once
// The kinds of constraints of a request for text, as data. A kind is an option of a request, and a
// pattern or a constraint that is made of its value. A new kind is a function in a file of kinds/,
// and its name appears twice below. The program makes its flags from the options, and scripts may
// set them at every level. So the value of an option is a text, a list of texts or JSON, and never
// a path.

#include "base/options.h"
#include "generate/constraints/answer_constraint.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::generate {

struct ConstraintKind {
  OptionSpec option; // an empty value sets no constraint
  // Each reads a value that is not empty, and fails with invalid_argument for a value that the kind
  // refuses.
  // pattern: returns the regular expression that the text has to match. Null for other languages.
  std::string (*pattern)(const Options& request);
  // make: returns the constraint. Null for a kind with a pattern: match_pattern() makes it.
  std::shared_ptr<const AnswerConstraint> (*make)(const Options& request,
                                                  const ConstraintPlace& place) = nullptr;
};

namespace constraint_files {

ConstraintKind choices();
ConstraintKind grammar();
ConstraintKind json_schema();
ConstraintKind regex();

inline constexpr ConstraintKind (*kTable[])() = {regex, choices, json_schema, grammar};

} // namespace constraint_files

// Returns the options of all kinds. Their group is "constraint".
std::vector<OptionSpec> constraint_options();

// Returns "regex, choices, json_schema or grammar".
std::string constraint_names();

// Returns the kind whose option a request sets; null without a constraint. Fails with
// invalid_argument for a request with two kinds.
const ConstraintKind* chosen_constraint(const Options& request);

// Returns the constraint of a pattern. Fails as text::TokenAutomaton.
std::shared_ptr<const AnswerConstraint>
match_pattern(const std::string& pattern, const ConstraintPlace& place,
              text::Notation notation = text::Notation::expression);

// Returns the constraint of a kind. Fails with invalid_argument for a value that the kind refuses.
std::shared_ptr<const AnswerConstraint>
make_constraint(const ConstraintKind& kind, const Options& request, const ConstraintPlace& place);

} // namespace dllm::generate
