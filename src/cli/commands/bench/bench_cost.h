#pragma once
// What one pass of a model computes and reads, from dllm_model_describe: JSON in, numbers out.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace dllm::cli {

// 2 flops for each weight and row; norms, activations and the softmax are not counted.
struct ModelCost {
  double layer_flops = 0;     // of one row, all layers
  double attention_flops = 0; // of one row and one key that it sees, all layers
  double head_flops = 0;      // of one row of logits
  double layer_bytes = 0;     // weights that a pass reads, without those of experts
  double expert_bytes = 0;    // of all experts
  double expert_share = 1;    // of the experts that one row uses
  double head_bytes = 0;

  // A pass over `rows` rows of which each sees `keys` keys on average, with `logits` rows of the head.
  double flops(double rows, double keys, double logits) const;
  double bytes(double rows, double logits) const;
};

// experts_per_token: from the config; 0: the model has no experts.
ModelCost cost_of(const nlohmann::ordered_json& description, int64_t experts_per_token);

// Keys that a row of a pass over `rows` rows sees on average, under an attention's name.
double mean_keys(const std::string& attention, double rows, double block_length);

} // namespace dllm::cli
