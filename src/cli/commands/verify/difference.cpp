#include "difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

namespace dllm::cli {
namespace {

constexpr size_t kTop = 5;

double log_sum_exp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - most);
  return most + std::log(sum);
}

// Returns the indices of the kTop largest logits, largest first; of equal logits the first comes
// first.
std::array<size_t, kTop> largest(std::span<const float> logits) {
  std::array<size_t, kTop> top{};
  size_t count = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (count == kTop && logits[i] <= logits[top[kTop - 1]]) continue;
    size_t at = count < kTop ? count++ : kTop - 1;
    for (; at > 0 && logits[i] > logits[top[at - 1]]; --at) top[at] = top[at - 1];
    top[at] = i;
  }
  std::fill(top.begin() + static_cast<std::ptrdiff_t>(count), top.end(), logits.size());
  return top;
}

// Returns the quantile at `share`, interpolated.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

template <class F> double mean(std::span<const PositionDifference> all, F&& value) {
  return std::transform_reduce(all.begin(), all.end(), 0.0, std::plus<>(), value) /
         static_cast<double>(all.size());
}

} // namespace

PositionDifference difference_of(std::span<const float> model, std::span<const float> reference,
                                 int32_t target) {
  const double own = log_sum_exp(model), other = log_sum_exp(reference);
  PositionDifference made;
  for (size_t i = 0; i < model.size(); ++i) {
    const double p = reference[i] - other, q = model[i] - own;
    made.kl += std::exp(p) * (p - q);
  }
  made.kl = std::max(made.kl, 0.0); // rounding
  made.nll = own - model[static_cast<size_t>(target)];
  made.reference_nll = other - reference[static_cast<size_t>(target)];
  const auto top = largest(model), reference_top = largest(reference);
  made.same_top = top[0] == reference_top[0];
  for (const size_t id : top)
    made.shared_top +=
        std::find(reference_top.begin(), reference_top.end(), id) != reference_top.end() ? 1 : 0;
  return made;
}

nlohmann::ordered_json difference_summary(std::span<const PositionDifference> positions) {
  using Position = PositionDifference;
  std::vector<double> kl;
  for (const Position& at : positions) kl.push_back(at.kl);
  std::sort(kl.begin(), kl.end());
  const double nll = mean(positions, [](const Position& at) { return at.nll; });
  const double reference = mean(positions, [](const Position& at) { return at.reference_nll; });
  const double change = nll - reference, count = static_cast<double>(positions.size());
  const double variance = mean(positions, [&](const Position& at) {
    const double rest = at.nll - at.reference_nll - change;
    return rest * rest;
  });
  return {{"positions", positions.size()},
          {"kl",
           {{"mean", mean(positions, [](const Position& at) { return at.kl; })},
            {"median", quantile(kl, 0.5)},
            {"p99", quantile(kl, 0.99)},
            {"max", kl.back()}}},
          {"top1", mean(positions, [](const Position& at) { return at.same_top ? 1.0 : 0.0; })},
          {"top5", mean(positions, [](const Position& at) { return at.shared_top / 5.0; })},
          {"nll", nll},
          {"reference_nll", reference},
          {"change", change},
          {"stderr", positions.size() > 1 ? std::sqrt(variance / (count - 1)) : 0.0},
          {"perplexity", std::exp(nll)},
          {"reference_perplexity", std::exp(reference)}};
}

} // namespace dllm::cli
