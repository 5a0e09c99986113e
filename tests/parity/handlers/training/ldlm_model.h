#pragma once
// The networks of castlehill/ldlm as parts of a model: sizes from its config.json, weights by a map
// of names.

#include "model/model.h"
#include "runner.h"

#include <string>

namespace dllm::parity {

// A tensor of the reference that holds one of ours: all of it, or one of equal parts.
struct ReferencePart {
  std::string name;
  int64_t part = 0, parts = 1;
  bool of_columns = false; // else of rows
};

// Returns where the reference has our tensor, such as "encoder/layers.0.mlp.up.weight". Fails with
// not_found for another name.
ReferencePart reference_part(const std::string& name);
// Returns our part of a tensor of the reference, in the shape of ours.
Tensor part_of(const ReferencePart& where, const Tensor& whole, const Shape& shape);

// A small base with the parts of the case's model.
std::shared_ptr<model::Model> ldlm_model(Case& c, const Json& entry);

} // namespace dllm::parity
