#pragma once
// Reads adapter_config.json of PEFT. Each key is used, is refused, or has no effect on the numbers
// of an adapter.

#include "base/json.h"
#include "model/adapters/adapter_targets.h"
#include "model/params/part.h"

#include <span>
#include <string>
#include <string_view>

namespace dllm::model {

// The prefix that PEFT puts before the name of a tensor.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

enum class AdapterKeyUse {
  used,    // read, and checked against the tensors
  off,     // changes numbers: refused unless the value is null, false or empty
  harmless // any value: the key is for training, or for a part that `off` refuses
};
struct AdapterKey {
  const char* name;
  AdapterKeyUse use;
};
// Returns every key of LoraConfig in PEFT 0.21.
std::span<const AdapterKey> adapter_keys();

class AdapterConfig {
public:
  // Reads the keys. Fails with unimplemented, naming the key, for a setting that computes something
  // else. Fails with invalid_argument for a value that no adapter has. Warns of a number or text
  // under a key that PEFT 0.21 does not have.
  AdapterConfig(const Json& json, const std::string& file);

  const AdapterSettings& settings() const { return settings_; }
  const AdapterTargets& targets() const { return targets_; }

private:
  AdapterSettings settings_;
  AdapterTargets targets_;
};

} // namespace dllm::model
