// The text matches a grammar in the form of llama.cpp (GBNF).

#include "generate/constraints/constraint_kinds.h"

namespace dllm::generate {

ConstraintKind constraint_files::grammar() {
  return {option_str("grammar", "",
                     "The whole answer matches this grammar (GBNF, as llama.cpp reads it), whose "
                     "rules contain themselves at most 4 times; empty: any text."),
          nullptr, [](const Options& request, const ConstraintPlace& place) {
            return match_pattern(request.str("grammar"), place, text::Notation::grammar);
          }};
}

} // namespace dllm::generate
