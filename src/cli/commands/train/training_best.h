#pragma once
// Best holds the lowest held-out losses of a run, and counts the evaluations without a lower loss.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace dllm::cli {

class Best {
public:
  // A Best of the JSON object of record(), of an earlier start. Other values make an empty Best.
  static Best of(const nlohmann::ordered_json& record);
  nlohmann::ordered_json record() const;

  // Takes a held-out loss and returns true when it is the lowest so far. A loss that is not finite
  // never is.
  bool add(int64_t step, double loss);
  // Takes a held-out loss and returns true when it is one of the `count` lowest, whose checkpoints
  // are kept. Losses of later steps belong to a course of the run that was undone.
  bool keep(int64_t step, double loss, int64_t count);
  // Returns the loss and the step of each kept checkpoint.
  const std::vector<std::pair<double, int64_t>>& kept() const { return kept_; }
  bool has_loss() const { return step_ >= 0; }
  int64_t step() const { return step_; } // -1: no loss was added
  double loss() const { return loss_; }
  int64_t without() const { return without_; } // evaluations since the lowest loss

private:
  int64_t step_ = -1, last_step_ = -1, without_ = 0; // last_step_: of all losses
  std::vector<std::pair<double, int64_t>> kept_;     // the lowest first
  double loss_ = std::numeric_limits<double>::infinity();
};

} // namespace dllm::cli
