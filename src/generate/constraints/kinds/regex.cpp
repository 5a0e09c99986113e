// The text matches a regular expression.

#include "generate/constraints/constraint_kinds.h"

namespace dllm::generate {

ConstraintKind constraint_files::regex() {
  return {
      option_str("regex", "",
                 "The whole answer matches this regular expression, with any order of decoding; "
                 "for infill the whole text does. Empty: any text."),
      [](const Options& request) { return request.str("regex"); }};
}

} // namespace dllm::generate
