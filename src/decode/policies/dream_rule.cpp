#include "decode/policies/dream_rules.h"

#include <algorithm>
#include <cmath>

namespace dllm::decode {
namespace {

// Makes the largest sums a draw without replacement, with chances exp(score) (Gumbel top-k).
double gumbel(float uniform) {
  const double u = std::max(static_cast<double>(uniform), 1e-12);
  return -std::log(-std::log(u));
}

class DreamRule final : public Rule {
public:
  explicit DreamRule(const DreamSettings& settings) : settings_(settings) {}

  void start(const Moment& moment) override {
    if (!settings_.schedule) return;
    transfer_ =
        transfer_counts(moment.schedule, static_cast<int64_t>(moment.open.size()), moment.steps);
  }

  std::vector<int64_t> wanted(const Moment& moment) const override {
    if (settings_.alg != "origin") return count(moment) > 0 ? Rule::wanted(moment) : none();
    std::vector<int64_t> positions;
    for (const int64_t position : moment.open) {
      if (moment.uniform(position) < revealed(moment)) positions.push_back(position);
    }
    return positions;
  }

  Choice choose(const Moment& moment, std::span<const Prediction> predictions) override {
    if (settings_.alg == "origin" || predictions.empty()) return all_of(predictions);
    std::vector<double> scores;
    for (const Prediction& p : predictions) {
      double score = static_cast<double>(p.shaped_probability);
      if (settings_.alg == "topk_margin") score = static_cast<double>(p.shaped_margin);
      if (settings_.alg == "entropy") score = -static_cast<double>(p.shaped_entropy);
      if (settings_.alg_temp > 0)
        score = score / settings_.alg_temp + gumbel(moment.uniform(p.position));
      scores.push_back(score);
    }
    Choice choice;
    choice.commit = largest(scores, count(moment));
    return choice;
  }

  bool block_ended(const Moment& moment) const override {
    return moment.open.empty() ||
           (!settings_.last_step && moment.slot.step_in_block >= moment.steps);
  }

private:
  static std::vector<int64_t> none() { return {}; }

  // Share of the masks a step reveals: 1 - s / t.
  float revealed(const Moment& moment) const {
    const int64_t step = moment.slot.step_in_block, steps = moment.steps;
    if (step + 1 >= steps && settings_.last_step) return 1.0f;
    return 1.0f -
           dream_time(step + 1, steps, settings_.eps) / dream_time(step, steps, settings_.eps);
  }

  int64_t count(const Moment& moment) const {
    if (settings_.schedule) return transfer_at(transfer_, moment.slot.step_in_block);
    return static_cast<int64_t>(static_cast<float>(moment.open.size()) * revealed(moment));
  }

  DreamSettings settings_;
  std::vector<int64_t> transfer_;
};

} // namespace

float dream_time(int64_t step, int64_t steps, float eps) {
  const float stride = (eps - 1.0f) / static_cast<float>(steps);
  // Both halves are counted from their own end, so that the ends are exact.
  if (step < (steps + 1) / 2) return 1.0f + stride * static_cast<float>(step);
  return eps - stride * static_cast<float>(steps - step);
}

std::unique_ptr<Rule> make_dream_rule(const DreamSettings& settings) {
  return std::make_unique<DreamRule>(settings);
}

} // namespace dllm::decode
