#pragma once
// Which parameters of a model a trainer changes. A trainer owns its selection; the model only looks at the selections
// of living trainers.

#include "model/param_store.h"

#include <string>
#include <vector>

namespace dllm::model {

class Selection {
public:
  // Trains the parameters of the base, or where `adapters` is true of its adapters alone, but those that a pattern of
  // `frozen` names ('*' stands for any text). Other networks of the model are never trained.
  Selection(bool adapters, std::vector<std::string> frozen)
      : adapters_(adapters), frozen_(std::move(frozen)) {}

  bool trains(const ParamStore::Physical& entry) const;
  const std::vector<std::string>& frozen() const { return frozen_; }

private:
  bool adapters_;
  std::vector<std::string> frozen_;
};

} // namespace dllm::model
