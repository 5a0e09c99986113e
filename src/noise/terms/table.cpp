#include "noise/terms/table.h"

#include "base/word_list.h"

#include <nlohmann/json.hpp>

namespace dllm::noise {

std::map<std::string, Json> LossTerm::new_parts(const model::ModelConfig&) const {
  return {};
}

const std::vector<TermEntry>& term_entries() {
  static const std::vector<TermEntry> all = [] {
    std::vector<TermEntry> made;
    for (const auto& file : term_files::kTable) {
      made.push_back(file());
      for (OptionSpec& row : made.back().options) row.group = kTermGroup;
    }
    return made;
  }();
  return all;
}

std::string term_names(const std::string& last, const std::function<bool(const TermEntry&)>& fits) {
  std::vector<std::string> names;
  for (const TermEntry& entry : term_entries()) {
    if (!fits || fits(entry)) names.push_back(entry.name());
  }
  return word_list(names, last);
}

} // namespace dllm::noise
