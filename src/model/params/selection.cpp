#include "model/params/selection.h"

#include <algorithm>

namespace dllm::model {

bool Selection::trains(const ParamStore::Physical& entry) const {
  if (entry.scale_of >= 0 || !parts_.contains(entry.spec.part)) return false;
  return std::ranges::none_of(
      frozen_, [&](const std::string& pattern) { return count_matches(pattern, entry.spec) > 0; });
}

} // namespace dllm::model
