#pragma once
// Chooses the parameters of a model that a trainer changes. A trainer owns its selection. The model
// only reads the selections of living trainers.

#include "model/params/param_store.h"

#include <string>
#include <vector>

namespace dllm::model {

class Selection {
public:
  // Trains the parameters of the base, or with `adapters` only the parameters of its adapters.
  // Parameters whose names match a pattern of `frozen` ('*' stands for any text) are not trained.
  // Other networks of the model are never trained.
  Selection(bool adapters, std::vector<std::string> frozen)
      : adapters_(adapters), frozen_(std::move(frozen)) {}

  bool trains(const ParamStore::Physical& entry) const;
  const std::vector<std::string>& frozen() const { return frozen_; }

private:
  bool adapters_;
  std::vector<std::string> frozen_;
};

} // namespace dllm::model
