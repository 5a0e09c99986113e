#include "schema_keys.h"

#include "../command.h"

namespace dllm::cli {

nlohmann::ordered_json request_keys(const std::string& group) {
  using Json = nlohmann::ordered_json;
  static const Json schema = Json::parse(text(
      [](dllm_buffer* out, dllm_error* err) { return dllm_options_schema("request", out, err); }));
  Json found = Json::array();
  for (const Json& key : schema.at("keys")) {
    if (key.value("group", "") == group) found.push_back(key);
  }
  return found;
}

} // namespace dllm::cli
