#include "noise/latent/adaptive_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dllm::noise {
namespace {

// Returns a number of parts up to `most` for `bins` bins, of equally many bins where that is near.
size_t part_count(size_t bins, size_t most) {
  if (bins <= most) return bins;
  for (size_t parts = most; 2 * parts > most; --parts) {
    if (bins % parts == 0) return parts;
  }
  return most;
}

} // namespace

std::vector<double> bin_shares(std::span<const double> edge_losses, double floor) {
  std::vector<double> shares;
  for (size_t i = 0; i + 1 < edge_losses.size(); ++i)
    shares.push_back(std::max(edge_losses[i + 1] - edge_losses[i], floor));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

int64_t bin_of_time(double time, int64_t bins) {
  return std::clamp<int64_t>(static_cast<int64_t>(time * static_cast<double>(bins)), 0, bins - 1);
}

void AdaptiveTimes::add_first(StateArrays& state) const {
  Tensor shares(DType::f32, {settings_.bins});
  std::ranges::fill(shares.mutable_as<float>(), 1.0f / static_cast<float>(settings_.bins));
  state["time_losses"] = Tensor(DType::f32, {settings_.bins + 1});
  state["time_rows"] = Tensor(DType::f32, {settings_.bins});
  state["time_shares"] = shares;
  state["time_updates"] = Tensor(DType::f32, {1});
}

// Returns the losses at the edges of the bins. A bin's own loss is that of its middle. An inner
// edge has the mean of two middles. The outer edges continue the line of the two next middles.
std::vector<double> AdaptiveTimes::edges(std::span<const float> losses) const {
  if (settings_.as_castlehill) return {losses.begin(), losses.end()};
  const size_t bins = losses.size() - 1;
  const auto middle = [&](size_t i) { return static_cast<double>(losses[i]); };
  if (bins == 1) return {0, 1};
  std::vector<double> made = {1.5 * middle(0) - 0.5 * middle(1)};
  for (size_t i = 1; i < bins; ++i) made.push_back((middle(i - 1) + middle(i)) / 2);
  made.push_back(1.5 * middle(bins - 1) - 0.5 * middle(bins - 2));
  return made;
}

void AdaptiveTimes::add_next(StateArrays& state, const Seen& seen) const {
  const auto bins = static_cast<size_t>(settings_.bins);
  Tensor losses = state.at("time_losses").clone(), rows = state.at("time_rows").clone(),
         updates = state.at("time_updates").clone();
  const auto averages = losses.mutable_as<float>(), visits = rows.mutable_as<float>();
  const bool first = std::ranges::all_of(visits, [](float n) { return n == 0; });
  const auto average = [&](float& old, double now, bool fresh) {
    const double kept = fresh && !settings_.as_castlehill ? 0 : settings_.decay;
    old = static_cast<float>(kept * static_cast<double>(old) + (1 - kept) * now);
  };
  for (size_t i = 0; i < bins; ++i) {
    if (seen.rows[i] <= 0) continue;
    average(averages[i], seen.losses[i] / seen.rows[i], visits[i] == 0);
    visits[i] += static_cast<float>(seen.rows[i]);
  }
  if (settings_.as_castlehill) average(averages[bins], seen.largest, false);
  float& since = updates.mutable_as<float>()[0];
  since += 1;
  const bool visited = std::ranges::all_of(visits, [](float n) { return n > 0; });
  const bool is_time = since >= static_cast<float>(settings_.interval);
  if (settings_.as_castlehill ? first || is_time : visited && is_time) {
    const std::vector<double> shares = bin_shares(edges(averages), settings_.floor);
    const double even = settings_.as_castlehill ? 0 : settings_.uniform / static_cast<double>(bins);
    const double rest = settings_.as_castlehill ? 1 : 1 - settings_.uniform;
    Tensor changed(DType::f32, {settings_.bins});
    for (size_t i = 0; i < bins; ++i)
      changed.mutable_as<float>()[i] = static_cast<float>(even + rest * shares[i]);
    state["time_shares"] = changed;
  }
  if (is_time) since = settings_.as_castlehill || visited ? 0 : since;
  state["time_losses"] = losses;
  state["time_rows"] = rows;
  state["time_updates"] = updates;
}

AdaptiveTimes::Profiles AdaptiveTimes::profiles(const StateArrays& state, size_t most) {
  const auto losses = state.find("time_losses"), rows = state.find("time_rows"),
             shares = state.find("time_shares");
  if (losses == state.end() || rows == state.end() || shares == state.end()) return {};
  const auto visits = rows->second.as<float>(), averages = losses->second.as<float>(),
             drawn = shares->second.as<float>();
  const size_t bins = visits.size(), parts = part_count(bins, most);
  std::vector<double> sums(parts), counts(parts), draws(parts);
  for (size_t i = 0; i < bins; ++i) {
    const size_t part = i * parts / bins;
    counts[part] += static_cast<double>(visits[i]);
    draws[part] += static_cast<double>(drawn[i]);
    if (visits[i] > 0) sums[part] += static_cast<double>(averages[i] * visits[i]);
  }
  Profiles made;
  for (size_t part = 0; part < parts; ++part) { // 0 / 0 is NaN
    made["time_losses"].push_back(static_cast<float>(sums[part] / counts[part]));
    made["time_rows"].push_back(static_cast<float>(counts[part]));
    made["time_shares"].push_back(static_cast<float>(draws[part]));
  }
  return made;
}

double AdaptiveTimes::time(const Tensor& shares, double uniform) const {
  const auto all = shares.as<float>();
  const double total = std::accumulate(all.begin(), all.end(), 0.0);
  const double width = 1 / static_cast<double>(all.size());
  double left = uniform * total;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto share = static_cast<double>(all[i]);
    if (left < share) return (static_cast<double>(i) + left / share) * width;
    left -= share;
  }
  return 1;
}

} // namespace dllm::noise
