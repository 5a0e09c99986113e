#include "train/step/layer_rates.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace dllm::train {
namespace {

// Returns true for what the first layer reads: tables of tokens and positions, their norm, and what
// a canvas adds to them. `head.bias` of a tied head is named after the table, and follows the
// layers.
bool precedes_layers(const model::ParamSpec& spec) {
  constexpr std::string_view kTables[] = {"embedding", "positions", "token_types"};
  return std::ranges::find(kTables, spec.name) != std::end(kTables) ||
         spec.name.starts_with("embedding_norm") || spec.name.starts_with("conditioning_");
}

} // namespace

LayerRates::LayerRates(const Options& options, const model::ParamStore& params)
    : decay_(options.f64("layer_decay")), as_open_dllm_(options.str("compat") == "open-dllm") {
  for (const model::ParamStore::Physical& entry : params.physical()) {
    int64_t& layers = layers_[entry.network()];
    layers = std::max(layers, entry.spec.first_layer + entry.spec.layers);
  }
}

float LayerRates::factor(const model::ParamStore::Physical& parameter) const {
  if (decay_ == 1) return 1;
  const model::ParamSpec& spec = parameter.spec;
  const auto layers = static_cast<double>(layers_.at(parameter.network()));
  if (spec.layers == 0) {
    const bool is_deepest = !as_open_dllm_ && precedes_layers(spec);
    return is_deepest ? static_cast<float>(std::pow(decay_, layers + 1)) : 1;
  }
  if (spec.layers > 1)
    fail(Code::internal, "{} has {} layers, whose rates differ", parameter.name, spec.layers);
  const auto layer = static_cast<double>(spec.first_layer);
  const double above = as_open_dllm_ ? 1 - layer / std::max(1.0, layers - 1) : layers - layer;
  return static_cast<float>(std::pow(decay_, above));
}

model::Cuts LayerRates::borders(const std::vector<std::string>& networks) const {
  model::Cuts made;
  if (decay_ == 1) return made;
  for (const auto& [network, layers] : layers_) {
    if (std::ranges::find(networks, network) == networks.end()) continue;
    for (int64_t layer = 1; layer < layers; ++layer) made[network].insert(layer);
  }
  return made;
}

} // namespace dllm::train
