#include "generate/constraints/constraint_kinds.h"

#include "base/error.h"
#include "base/word_list.h"
#include "generate/constraints/text_constraint.h"

#include <fmt/format.h>

namespace dllm::generate {
namespace {

const std::vector<ConstraintKind>& kinds() {
  static const std::vector<ConstraintKind> all = [] {
    std::vector<ConstraintKind> made;
    for (const auto& kind : constraint_files::kTable) {
      made.push_back(kind());
      made.back().option.group = "constraint";
    }
    return made;
  }();
  return all;
}

bool is_set(const ConstraintKind& kind, const Options& request) {
  const OptionSpec& option = kind.option;
  return option.type == OptionType::list ? !request.list(option.key).empty()
                                         : !request.str(option.key).empty();
}

} // namespace

std::vector<OptionSpec> constraint_options() {
  std::vector<OptionSpec> options;
  for (const ConstraintKind& kind : kinds()) options.push_back(kind.option);
  return options;
}

std::string constraint_names() {
  std::vector<std::string> names;
  for (const ConstraintKind& kind : kinds()) names.push_back(kind.option.key);
  return word_list(names, "or");
}

const ConstraintKind* chosen_constraint(const Options& request) {
  const ConstraintKind* chosen = nullptr;
  for (const ConstraintKind& kind : kinds()) {
    if (!is_set(kind, request)) continue;
    if (chosen != nullptr) {
      fail_with_hint("set one of them", Code::invalid_argument,
                     "options {} and {} cannot both be set: each says what the text must be",
                     chosen->option.key, kind.option.key);
    }
    chosen = &kind;
  }
  return chosen;
}

std::shared_ptr<const AnswerConstraint>
match_pattern(const std::string& pattern, const ConstraintPlace& place, text::Notation notation) {
  const char* name = notation == text::Notation::grammar ? "grammar" : "pattern";
  return std::make_shared<const TextConstraint>(
      place.automata.get(pattern, notation, place.banned, place.task), place.begin, place.ends,
      place.may_end, fmt::format("the {} \"{}\"", name, pattern.substr(0, 80)));
}

std::shared_ptr<const AnswerConstraint>
make_constraint(const ConstraintKind& kind, const Options& request, const ConstraintPlace& place) {
  return kind.pattern != nullptr ? match_pattern(kind.pattern(request), place)
                                 : kind.make(request, place);
}

} // namespace dllm::generate
