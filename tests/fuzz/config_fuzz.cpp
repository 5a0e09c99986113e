// config.json: any bytes give a config or an Error, and a config prints back to itself.

#include "base/error.h"
#include "model/config.h"
#include "model/families/family.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const model::ModelConfig config = model::config_from_text(text, "config.json");
    const Json printed = model::config_to_json(config);
    if (model::config_to_json(model::config_from_json(printed, "printed")) != printed) std::abort();
    if (config.positions == model::PositionKind::rotary)
      model::rope_table(config, 2 * config.max_positions);
    for (const model::ParamSpec& spec : model::find_family(config.family).params(config)) {
      if (spec.shape().count() <= 0) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
