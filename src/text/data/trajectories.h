#pragma once
// The trajectories of the rows of a dataset, as a loader adds them to its batches.

#include "base/task.h"
#include "text/data/dataset.h"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace dllm::text {

// Name of the array of a batch, i32(batch, seq): for each token the first row of the trajectory
// that shows it. 0: the token is given, or comes after the trajectory. -1: the row has no
// trajectory.
inline constexpr const char* kTrajectory = "trajectory";

class Trajectories {
public:
  // Reads a file (trajectory_file.h) and keeps the orders of its rows. Fails with data_loss, naming
  // file, line and row, for an idx outside of the dataset, or for a trajectory of another text.
  Trajectories(const std::string& path, const Dataset& data);

  int64_t size() const { return static_cast<int64_t>(orders_.size()); }
  // Returns the numbers of array "trajectory" for tokens [from, from + count) of a row.
  std::vector<int32_t> part(int64_t row, int64_t from, int64_t count) const;

private:
  std::unordered_map<int64_t, std::vector<int32_t>> orders_; // by row of the dataset
};

} // namespace dllm::text
