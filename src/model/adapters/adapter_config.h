#pragma once
// Reads adapter_config.json of PEFT. Each key is used, is refused, or has no effect on the numbers
// of an adapter.

#include "base/json.h"
#include "model/adapters/adapter_targets.h"
#include "model/adapters/kinds/adapter_kind.h"
#include "model/params/part.h"

#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// The prefix that PEFT puts before the name of a tensor.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

// The key of copies whose embedding is also the head of the base.
inline constexpr const char* kTiesWeights = "ensure_weight_tying";

// Returns every key of the configs of a kind in PEFT 0.21.
std::vector<AdapterKey> adapter_keys(const AdapterKind& kind);

class AdapterConfig {
public:
  // Reads the keys. Fails with unimplemented, naming the key, for a setting that computes something
  // else. Fails with invalid_argument for a value that no adapter has. Warns of a number or text
  // under a key that PEFT 0.21 does not have.
  AdapterConfig(const Json& json, const std::string& file);

  const AdapterKind& kind() const { return *kind_; }
  const AdapterSettings& settings() const { return settings_; }
  const AdapterTargets& targets() const { return targets_; }
  // Returns true when PEFT keeps the tied modules of the base tied.
  bool ties_weights() const { return ties_weights_; }

private:
  const AdapterKind* kind_;
  AdapterSettings settings_;
  AdapterTargets targets_;
  bool ties_weights_ = false;
};

} // namespace dllm::model
