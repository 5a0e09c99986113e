#pragma once
// Option layer_decay: learning rates that fall from the head to the embeddings (ELECTRA, Clark et
// al. 2020; BEiT, Bao et al. 2021). Private to src/train.

#include "base/options.h"
#include "model/params/param_store.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::train {

// The factors of the learning rate by depth, in each network by its own layers. With factor d and
// layers 0 to n - 1:
//   what follows the layers 1,  layer l d^(n - l),  what precedes the layers d^(n + 1).
// compat = open-dllm: layer l d^(1 - l / (n - 1)), and 1 outside of the layers.
class LayerRates {
public:
  LayerRates(const Options& options, const model::ParamStore& params);

  // Returns the factor of a parameter. An adapter has the factor of the matrix that it changes.
  // REQUIRES: all layers of a stack have one factor (borders).
  float factor(const model::ParamStore::Physical& parameter) const;
  // Returns the cuts after which each layer of these networks is a stack. Without decay there are
  // none.
  model::Cuts borders(const std::vector<std::string>& networks) const;

private:
  double decay_;
  bool as_open_dllm_;
  std::map<std::string, int64_t> layers_; // by network
};

} // namespace dllm::train
