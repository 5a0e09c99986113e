#pragma once
// Chooses the masked tokens of a row from its trajectory. A mask ratio chooses a row of the
// trajectory, whose hidden tokens are masked. d3LLM is trained so in castlehill, a fork of
// Open-dLLM. The targets are the tokens of the data.

#include "base/options.h"
#include "noise/schedules/schedule.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dllm::noise {

// Returns trajectory_min_ratio, trajectory_max_ratio, trajectory_ramp and trajectory_blocks.
std::vector<OptionSpec> trajectory_options();

// How the tokens of one row are masked.
enum class Masked : uint8_t {
  no,
  yes,
  silent, // masked and not counted: it is after the block of the row
};
struct TrajectoryChoice {
  std::vector<Masked> tokens;
  int64_t counted = 0; // tokens of the block, or of the row, that may be masked
  double ratio = 0;    // masked part of them
};

// Returns the number of a row of a trajectory for a mask ratio. The masked tokens are taken to fall
// linearly from row to row, as in castlehill.
int64_t linear_row(int64_t rows, double ratio);
// Returns the row whose masked part is nearest to the ratio. Of two rows it is the one that hides
// more. order: by position; counts: 1 for the positions that count.
int64_t nearest_row(std::span<const int32_t> order, std::span<const uint8_t> counts, double ratio);

class TrajectoryMasks {
public:
  // Reads the options, and compat: with open-dllm a row is chosen by linear_row.
  explicit TrajectoryMasks(const Options& options);

  // Returns the mask ratio of an update, which rises from the least to the largest in `ramp`
  // updates.
  double current_ratio(int64_t step) const;
  // Returns the ratio of the rows of a batch: the current one plus `jitter`, in [0, 1), of what is
  // left to the largest.
  double jittered(int64_t step, double jitter) const;
  // Returns the jitter of an update, which depends on (seed, step) alone.
  static float jitter(uint64_t seed, int64_t step);
  // Returns the ratio that a loss reads for a row whose masked part is `ratio`.
  double loss_ratio(int64_t step, double ratio) const {
    return linear_ ? current_ratio(step) : ratio;
  }
  // Returns the block length of an update; 0: whole rows. The lengths share the ramp equally.
  int64_t block_length(int64_t step) const;

  // One row of a batch.
  struct Row {
    std::span<const int32_t> order;    // of array "trajectory"
    std::span<const uint8_t> counts;   // 1: the token may be masked
    std::span<const float> mask_draws; // uniform; a row without a trajectory uses them
    float block_draw = 0;              // uniform; chooses the block
  };
  TrajectoryChoice choose(const Row& row, int64_t step, double ratio) const;

private:
  TrajectoryChoice choose_in(const Row& row, size_t begin, size_t end, double ratio) const;

  double least_, most_;
  int64_t ramp_;
  std::vector<int64_t> blocks_;
  bool linear_;
};

// Returns the time at which a schedule masks this part of the tokens.
double time_of_ratio(const Schedule& schedule, double ratio);

} // namespace dllm::noise
