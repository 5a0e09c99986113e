#pragma once
// Times that are drawn where the loss grows (LDLM, arXiv 2605.07933). [0, 1] is cut into bins of
// equal width. The mean loss of every bin is averaged over the updates, and a bin is drawn as often
// as the loss rises across it. So the loss grows evenly in the number that is drawn.

#include "base/options.h"
#include "noise/objective_state.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dllm::noise {

// Returns the shares of the bins between edges with these losses: the rises, each at least `floor`,
// divided by their sum.
std::vector<double> bin_shares(std::span<const double> edge_losses, double floor);

// Returns the bin of a time in [0, 1].
int64_t bin_of_time(double time, int64_t bins);

class AdaptiveTimes {
public:
  struct Settings {
    int64_t bins = 100;
    double decay = 0.999;    // of the averages, for each update that visits a bin
    int64_t interval = 5000; // updates between two changes of the shares
    double floor = 1e-6;     // least rise of a bin
    double uniform = 0.1;    // part of the draws that stays uniform
    // dLLM-castlehill: averages begin at 0, the shares change after the first update too, bins that
    // no time visited count, and `uniform` is 0. Bin i stands for its lower edge, and the last edge
    // averages the largest loss of every update.
    bool as_castlehill = false;
  };
  explicit AdaptiveTimes(const Settings& settings) : settings_(settings) {}
  const Settings& settings() const { return settings_; }

  // What one update saw, by bin: sums of losses and numbers of rows.
  struct Seen {
    std::span<const double> losses, rows;
    double largest = 0; // the largest loss; read with as_castlehill alone
  };

  // Adds the arrays that training keeps: "time_losses" f32(bins + 1) has the averages, "time_rows"
  // f32(bins) the rows that each bin saw, "time_shares" f32(bins) the shares, and "time_updates"
  // f32(1) the updates since the shares changed.
  void add_first(StateArrays& state) const;
  // Replaces these arrays by those after an update.
  void add_next(StateArrays& state, const Seen& seen) const;

  // Returns what a record of a run shows of these arrays: at most `most` values of equal parts of
  // [0, 1]. "time_losses" has the average losses (NaN: no row was there), "time_rows" the numbers
  // of rows so far, and "time_shares" the shares. Empty for a state without these arrays.
  using Profiles = std::map<std::string, std::vector<float>>; // by name
  static Profiles profiles(const StateArrays& state, size_t most);

  // Returns the time of a uniform number under the shares f32(bins).
  double time(const Tensor& shares, double uniform) const;

private:
  std::vector<double> edges(std::span<const float> losses) const;

  Settings settings_;
};

} // namespace dllm::noise
