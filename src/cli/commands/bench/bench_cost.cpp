#include "bench_cost.h"

#include <algorithm>
#include <vector>

namespace dllm::cli {
namespace {

using CostJson = nlohmann::ordered_json;

// Returns the bytes of one weight in a format, or `mean` for a format that is not listed here.
double weight_bytes(const std::string& format, double mean) {
  if (format == "f32") return 4;
  if (format == "bf16" || format == "f16") return 2;
  if (format == "q8_0") return 34.0 / 32;
  if (format == "int8") return 1;
  return mean;
}

bool ends_with(const std::string& name, const std::string& end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

} // namespace

double ModelCost::flops(double rows, double keys, double logits) const {
  return rows * (layer_flops + keys * attention_flops) + logits * head_flops;
}

double ModelCost::bytes(double rows, double logits) const {
  const double experts = expert_bytes * std::min(1.0, rows * expert_share);
  return layer_bytes + experts + (logits > 0 ? head_bytes : 0);
}

// The first dimension of a stack of layers is the layer: matrices (layers, out, in), experts
// (layers, experts, out, in). Without a head of its own the model uses the token embedding as head.
ModelCost cost_of(const CostJson& description, int64_t experts_per_token) {
  ModelCost cost;
  const double params = description.value("params", 0.0);
  const double mean = params > 0 ? description.value("bytes", 0.0) / params : 4;
  for (const CostJson& entry : description.value("storage", CostJson::array())) {
    const auto name = entry.at("name").get<std::string>();
    const auto shape = entry.at("shape").get<std::vector<double>>();
    double count = 1;
    for (const double size : shape) count *= size;
    const double bytes = count * weight_bytes(entry.value("format", ""), mean);
    if (name == "head" || (name == "embedding" && cost.head_flops == 0)) {
      cost.head_flops = 2 * count;
      cost.head_bytes = bytes;
    }
    if (shape.size() == 3) {
      cost.layer_flops += 2 * count;
      cost.layer_bytes += bytes;
    }
    if (shape.size() == 4) {
      cost.expert_share = std::min(1.0, static_cast<double>(experts_per_token) / shape[1]);
      cost.layer_flops += 2 * count * cost.expert_share;
      cost.expert_bytes += bytes;
    }
    // Counts the scores and their product with the values, over the width of the queries.
    if (shape.size() == 3 && ends_with(name, ".out"))
      cost.attention_flops += 4 * shape[0] * shape[2];
  }
  return cost;
}

double mean_keys(const std::string& attention, double rows, double block_length) {
  if (attention == "causal") return (rows + 1) / 2;
  if (attention == "block_causal") return (rows + std::min(rows, std::max(1.0, block_length))) / 2;
  return rows;
}

} // namespace dllm::cli
