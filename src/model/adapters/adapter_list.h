#pragma once
// Reads which adapters of a model a request uses, such as "math:0.7,code:0.3".

#include "model/model.h"
#include "model/params/part.h"

#include <string>
#include <vector>

namespace dllm::model {

struct AdapterUse {
  std::string name;
  double weight = 1; // multiplies the products of the adapter, in addition to its scale
};

// Reads words "NAME" and "NAME:WEIGHT". The word "none" alone chooses no adapter. Fails with
// invalid_argument for a weight that is not a number of -1e9 to 1e9, and for a name that is there
// twice.
std::vector<AdapterUse> read_adapter_uses(const std::vector<std::string>& words);

// Returns the base and these adapters, in this order. Adapters of weight 0 are left out. Fails with
// not_found and the names of the model's adapters.
PartList parts_of(const Model& model, const std::vector<AdapterUse>& choices);

} // namespace dllm::model
