#include "objective_facts.h"

#include "command.h"
#include "dllm/dllm.h"
#include "options/names.h"

#include <algorithm>

namespace dllm::cli {

ObjectiveFacts facts_of(const std::string& objective) {
  ObjectiveFacts facts;
  const std::vector<std::string> known = registry_names("objective");
  if (std::find(known.begin(), known.end(), objective) == known.end()) return facts;
  const auto schema = nlohmann::ordered_json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_schema(("objective:" + objective).c_str(), out, err);
  }));
  const auto& about = schema.at("about");
  about.at("rows").get_to(facts.rows);
  about.at("packs").get_to(facts.packs);
  about.at("padding").get_to(facts.padding);
  about.at("shift").get_to(facts.shift);
  about.at("model").get_to(facts.model);
  about.at("heads").get_to(facts.heads);
  about.at("positions").get_to(facts.positions);
  about.at("policy").get_to(facts.policy);
  facts.sample = about.at("sample");
  about.at("sample_at_end").get_to(facts.sample_at_end);
  about.at("likelihood").get_to(facts.likelihood);
  return facts;
}

std::vector<std::string> text_objectives() {
  std::vector<std::string> names = registry_names("objective");
  std::erase_if(names, [](const std::string& name) { return !facts_of(name).reads_text(); });
  return names;
}

} // namespace dllm::cli
