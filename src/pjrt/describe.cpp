#include "pjrt/describe.h"

#include "pjrt/find_plugin.h"
#include "pjrt/plugin.h"

#include <nlohmann/json.hpp>

namespace dllm::pjrt {

Json list_plugins() {
  Json all = Json::array();
  for (const PluginSearch& search : find_plugins()) {
    Json one = {
        {"platform", search.platform}, {"paths", search.paths}, {"packages", search.packages}};
    if (search.paths.empty()) one["missing"] = "no plugin lies in " + search.looked_in;
    all.push_back(std::move(one));
  }
  return all;
}

Json describe_plugin(const std::string& name) {
  const Plugin& plugin = Plugin::load(find_plugin(name));
  Json attributes = Json::object();
  for (const auto& [key, value] : plugin.attributes()) attributes[key] = value_text(value);
  return {{"path", plugin.path()},
          {"api", "0." + std::to_string(plugin.minor())},
          {"stablehlo", plugin.version("stablehlo_current_version")},
          {"attributes", std::move(attributes)}};
}

} // namespace dllm::pjrt
