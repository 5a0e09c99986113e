#include "generate/constraints/constraint_kinds.h"

#include "base/error.h"

namespace dllm::generate {
namespace {

struct ConstraintKind {
  OptionSpec option;
  bool (*is_set)(const Options& request);
  std::string (*pattern)(const Options& request);
};

const std::vector<ConstraintKind>& kinds() {
  static const std::vector<ConstraintKind> all = {
      {option_str("regex", "",
                  "The whole answer matches this regular expression, with any order of decoding; "
                  "for infill the whole text does. Empty: any text."),
       [](const Options& request) { return !request.str("regex").empty(); },
       [](const Options& request) { return request.str("regex"); }},
      {option_list("choices", {}, "The whole answer is one of these texts; empty: any text."),
       [](const Options& request) { return !request.list("choices").empty(); },
       [](const Options& request) { return pattern_of_choices(request.list("choices")); }},
      {option_json("json_schema",
                   "The whole answer is JSON of this schema, with the members in its "
                   "order: an object of JSON Schema."),
       [](const Options& request) { return !request.str("json_schema").empty(); },
       [](const Options& request) { return pattern_of_schema(request.str("json_schema")); }},
  };
  return all;
}

} // namespace

std::vector<OptionSpec> constraint_options() {
  std::vector<OptionSpec> options;
  for (const ConstraintKind& kind : kinds()) options.push_back(kind.option);
  return options;
}

std::string constraint_names() {
  std::string names;
  for (size_t i = 0; i < kinds().size(); ++i)
    names += (i == 0 ? "" : i + 1 == kinds().size() ? " or " : ", ") + kinds()[i].option.key;
  return names;
}

std::optional<std::string> constraint_pattern(const Options& request) {
  const ConstraintKind* chosen = nullptr;
  for (const ConstraintKind& kind : kinds()) {
    if (!kind.is_set(request)) continue;
    if (chosen != nullptr) {
      fail_with_hint("set one of them", Code::invalid_argument,
                     "options {} and {} both say what the text has to be", chosen->option.key,
                     kind.option.key);
    }
    chosen = &kind;
  }
  return chosen == nullptr ? std::nullopt : std::optional(chosen->pattern(request));
}

} // namespace dllm::generate
