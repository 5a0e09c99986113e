#pragma once
// Chooses the parameters of a model that a trainer changes. A trainer owns its selection. The model
// only reads the selections of living trainers.

#include "model/params/param_store.h"

#include <set>
#include <string>
#include <vector>

namespace dllm::model {

class Selection {
public:
  // Trains the parameters of these parts, without those whose names match a pattern of `frozen`
  // ('*' stands for any text).
  Selection(std::set<std::string> parts, std::vector<std::string> frozen)
      : parts_(std::move(parts)), frozen_(std::move(frozen)) {}

  bool trains(const ParamStore::Physical& entry) const;
  const std::vector<std::string>& frozen() const { return frozen_; }

private:
  std::set<std::string> parts_;
  std::vector<std::string> frozen_;
};

} // namespace dllm::model
