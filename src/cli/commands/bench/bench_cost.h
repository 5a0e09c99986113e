#pragma once
// A ModelCost has the flops and bytes of one forward pass, computed from dllm_model_describe.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace dllm::cli {

// A weight counts 2 flops per row. Norms, activations and the softmax are not counted.
struct ModelCost {
  double layer_flops = 0;     // of one row, in all layers
  double attention_flops = 0; // of one row and one key that it attends to, in all layers
  double head_flops = 0;      // of one row of logits
  double layer_bytes = 0;     // weights of all layers, without experts
  double expert_bytes = 0;    // weights of all experts
  double expert_share = 1;    // fraction of the experts that one row uses
  double head_bytes = 0;      // weights of the head

  // Flops and bytes of a pass over `rows` rows, with `logits` rows of the head. Each row attends to
  // `keys` keys on average.
  double flops(double rows, double keys, double logits) const;
  double bytes(double rows, double logits) const;
};

// experts_per_token: from the config; 0: the model has no experts.
ModelCost cost_of(const nlohmann::ordered_json& description, int64_t experts_per_token);

// Returns the mean number of keys that a row of a pass over `rows` rows attends to.
double mean_keys(const std::string& attention, double rows, double block_length);

} // namespace dllm::cli
