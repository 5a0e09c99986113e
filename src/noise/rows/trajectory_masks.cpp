#include "noise/rows/trajectory_masks.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace dllm::noise {

std::vector<OptionSpec> trajectory_options() {
  return {
      option_f64("trajectory_min_ratio", 0.0, 0.0, 1.0,
                 "With array trajectory: mask ratio of the first update."),
      option_f64("trajectory_max_ratio", 0.8, 0.0, 1.0,
                 "With array trajectory: largest mask ratio. Each update draws a ratio between the "
                 "current one and this."),
      option_i64(
          "trajectory_ramp", 0, 0, int64_t{1} << 40,
          "With array trajectory: updates in which the ratio rises from trajectory_min_ratio "
          "to trajectory_max_ratio; 0: it begins there."),
      option_list("trajectory_blocks", {},
                  "With array trajectory: block lengths, one after the other in equal parts of "
                  "trajectory_ramp. One block of a row is trained, and all after it is masked; "
                  "empty: whole rows.",
                  ListOf::texts_and_numbers),
  };
}

int64_t linear_row(int64_t rows, double ratio) {
  const auto row = static_cast<int64_t>((1.0 - ratio) * static_cast<double>(rows - 1));
  return std::clamp<int64_t>(row, 0, rows - 1);
}

int64_t nearest_row(std::span<const int32_t> order, std::span<const uint8_t> counts, double ratio) {
  std::vector<int32_t> shown; // by token: the first row that shows it
  for (size_t i = 0; i < order.size(); ++i) {
    if (counts[i] != 0) shown.push_back(order[i]);
  }
  std::ranges::sort(shown);
  // After `k` tokens are shown, k + 1 to n are hidden. A row shows all tokens of equal numbers.
  int64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k <= shown.size(); ++k) {
    if (k > 0 && k < shown.size() && shown[k] == shown[k - 1]) continue;
    const int64_t row = k == 0 ? 0 : shown[k - 1];
    if (k == 0 && !shown.empty() && shown[0] <= 0) continue; // row 0 shows this token
    const double hidden = static_cast<double>(shown.size() - k);
    const double apart =
        std::abs(hidden / std::max<double>(1, static_cast<double>(shown.size())) - ratio);
    if (apart >= least) continue;
    least = apart;
    best = row;
  }
  return best;
}

namespace {

std::vector<int64_t> lengths_of(const std::vector<std::string>& texts) {
  std::vector<int64_t> made;
  for (const std::string& text : texts) {
    int64_t length = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), length);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || length < 1 ||
        length > (1 << 24)) {
      fail_with_hint("write lengths such as 16,32", Code::invalid_argument,
                     "trajectory_blocks has \"{}\", expected a number from 1 to {}", text, 1 << 24);
    }
    made.push_back(length);
  }
  return made;
}

} // namespace

TrajectoryMasks::TrajectoryMasks(const Options& options)
    : least_(options.f64("trajectory_min_ratio")), most_(options.f64("trajectory_max_ratio")),
      ramp_(options.i64("trajectory_ramp")), blocks_(lengths_of(options.list("trajectory_blocks"))),
      linear_(options.str("compat") == "open-dllm") {
  if (least_ > most_) {
    fail(Code::invalid_argument, "trajectory_min_ratio {} is above trajectory_max_ratio {}", least_,
         most_);
  }
}

double TrajectoryMasks::current_ratio(int64_t step) const {
  if (ramp_ == 0 || step >= ramp_) return most_;
  return least_ + (most_ - least_) * static_cast<double>(step) / static_cast<double>(ramp_);
}

double TrajectoryMasks::jittered(int64_t step, double jitter) const {
  const double current = current_ratio(step);
  return current + jitter * std::max(most_ - current, 0.0);
}

float TrajectoryMasks::jitter(uint64_t seed, int64_t step) {
  // No row has this number.
  constexpr uint64_t kWholeUpdate = std::numeric_limits<uint64_t>::max();
  const Key key = stream_key(seed, Stream::time, static_cast<uint64_t>(step), kWholeUpdate);
  return uniform_from_bits(random_bits_at(key, 0));
}

int64_t TrajectoryMasks::block_length(int64_t step) const {
  if (blocks_.empty()) return 0;
  const auto count = static_cast<int64_t>(blocks_.size());
  const int64_t part = ramp_ == 0 || step >= ramp_ ? count - 1 : step * count / ramp_;
  return blocks_[static_cast<size_t>(part)];
}

TrajectoryChoice TrajectoryMasks::choose_in(const Row& row, size_t begin, size_t end,
                                            double ratio) const {
  TrajectoryChoice made;
  made.tokens.assign(row.order.size(), Masked::no);
  const auto order = row.order.subspan(begin, end - begin);
  const auto counts = row.counts.subspan(begin, end - begin);
  const bool drawn = std::ranges::find(order, -1) != order.end(); // there is no trajectory
  const int64_t rows =
      1 + std::max<int64_t>(0, row.order.empty() ? 0 : *std::ranges::max_element(row.order));
  const int64_t number = linear_ ? linear_row(rows, ratio) : nearest_row(order, counts, ratio);
  // castlehill draws with this probability, so that a token is masked even at ratio 0.
  const auto probability = static_cast<float>(0.999 * ratio + 0.001);
  int64_t hidden = 0;
  for (size_t i = begin; i < end; ++i) {
    if (row.counts[i] == 0) continue;
    ++made.counted;
    if (drawn ? row.mask_draws[i] >= probability : row.order[i] <= number) continue;
    made.tokens[i] = Masked::yes;
    ++hidden;
  }
  if (made.counted > 0)
    made.ratio = static_cast<double>(hidden) / static_cast<double>(made.counted);
  return made;
}

TrajectoryChoice TrajectoryMasks::choose(const Row& row, int64_t step, double ratio) const {
  const size_t size = row.order.size();
  const int64_t length = block_length(step);
  size_t first = 0, last = size; // the tokens that may be masked are in [first, last)
  while (first < last && row.counts[first] == 0) ++first;
  while (last > first && row.counts[last - 1] == 0) --last;
  if (length == 0 || first == last) return choose_in(row, first, last, ratio);
  const auto block = static_cast<size_t>(length);
  const size_t blocks = (last - first + block - 1) / block;
  const auto drawn = static_cast<size_t>(row.block_draw * static_cast<float>(blocks));
  const size_t begin = first + std::min(drawn, blocks - 1) * block;
  const size_t end = std::min(begin + block, last);
  TrajectoryChoice made = choose_in(row, begin, end, ratio);
  for (size_t i = end; i < last; ++i) {
    if (row.counts[i] != 0) made.tokens[i] = Masked::silent;
  }
  return made;
}

double time_of_ratio(const Schedule& schedule, double ratio) {
  double low = 0, high = 1;
  if (schedule.mask_prob(low) >= ratio) return low;
  if (schedule.mask_prob(high) <= ratio) return high;
  constexpr int kHalvings = 52; // of a double in [0, 1]
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (schedule.mask_prob(middle) < ratio ? low : high) = middle;
  }
  return high;
}

} // namespace dllm::noise
