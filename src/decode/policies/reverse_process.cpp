// Policies that sample the reverse process, in steps (ancestral) or from event to event
// (first_hitting).
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dllm::decode {

// Ancestral sampling of the reverse process (MDLM, Sahoo et al. 2024, section 3.2.2). An open
// position is decided between t and s < t with probability (alpha(s) - alpha(t)) / (1 - alpha(t)).
// The draw does not depend on the model. So only the positions to decide are predicted, and a step
// without any needs no forward pass.

namespace {

class Ancestral final : public UnmaskingRule {
public:
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<Ancestral>(*this);
  }
  std::vector<int64_t> wanted(const StepContext& moment) const override {
    const double reveal = this->reveal(moment);
    std::vector<int64_t> positions;
    for (int64_t position : moment.open) {
      if (moment.uniform(position) < reveal) positions.push_back(position);
    }
    return positions;
  }

  Choice choose(const StepContext&, std::span<const Prediction> predictions) override {
    return all_of(predictions);
  }

  // The last step decides all open positions.
  bool block_ended(const StepContext& moment) const override {
    return moment.open.empty() || (moment.chosen && moment.request.step_in_block >= moment.steps);
  }

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    for_coming_steps(moment, tables.level.size(), [&](size_t i, const StepContext& coming) {
      tables.level[i] = float_from(reveal(coming));
      tables.count[i] = static_cast<int32_t>(coming.steps - coming.request.step_in_block);
    });
  }
  int64_t most_steps(int64_t /*block_length*/, int64_t steps) const override { return steps; }

private:
  static double reveal(const StepContext& moment) {
    const double s = moment.s();
    return s <= 0 ? 1.0 : 1.0 - moment.schedule.reverse_mask_prob(s, moment.t());
  }
  // Returns the smallest float that is at least x. A float is below it exactly if it is below x.
  static float float_from(double x) {
    const auto near = static_cast<float>(x);
    if (static_cast<double>(near) >= x) return near;
    return std::nextafter(near, std::numeric_limits<float>::infinity());
  }
};

// The graph form of the rule. LoopTables::count is the number of steps that are left.
class AncestralLoop final : public LoopRule {
public:
  explicit AncestralLoop(int32_t mask_id) : mask_id_(mask_id) {}
  int32_t reopening() const override { return mask_id_; }
  bool uses_chance() const override { return true; }
  graph::Value wanted(const LoopContext& moment) const override {
    return graph::logical_and(moment.open, graph::less(moment.chance, per_row(moment.level)));
  }
  LoopChoice choose(const LoopContext& moment, const PredictionValues&) const override {
    LoopChoice choice;
    choice.decided = wanted(moment);
    choice.over = graph::less(moment.count, graph::scalar_i32(moment.graph, 2));
    return choice;
  }

private:
  int32_t mask_id_;
};

std::unique_ptr<Policy> make_ancestral(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<Ancestral>(); },
      [mask = setup.mask_id] {
        return LoopOffer{std::make_unique<AncestralLoop>(mask), ""};
      });
}

} // namespace

PolicyKind policy_files::ancestral() {
  return {"ancestral", make_ancestral, {}};
}

// First-hitting sampling (Zheng et al. 2024). The times at which positions are decided are drawn.
// With n open positions, the mask probability of the next event is the current one times u^(1/n).
// The event decides one of the open positions, all with the same chance. The result is exact for a
// model that has every conditional, for any schedule, with one pass per token. Option `steps` is
// not used.

namespace {

class FirstHitting final : public UnmaskingRule {
public:
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<FirstHitting>(*this);
  }
  void start(const StepContext& moment) override {
    masked_ = moment.schedule.mask_prob(1);
    events_.start(moment);
  }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    const auto count = static_cast<double>(moment.open.size());
    const auto index = static_cast<size_t>(moment.uniform(moment.begin, 2) * count);
    return {moment.open[std::min(index, moment.open.size() - 1)]};
  }

  // Returns the time at which the schedule has the mask probability of the next event. mask_prob
  // grows with t.
  double time(const StepContext& moment) const override {
    const double target = next(moment);
    double low = 0, high = 1;
    for (int i = 0; i < 50; ++i) {
      const double middle = (low + high) / 2;
      (moment.schedule.mask_prob(middle) < target ? low : high) = middle;
    }
    return std::max(high, 1e-6);
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    masked_ = next(moment);
    Choice choice = all_of(predictions);
    events_.count(choice);
    return choice;
  }

  bool block_ended(const StepContext& moment) const override { return events_.over(moment); }

private:
  double next(const StepContext& moment) const {
    const auto count = static_cast<double>(moment.open.size());
    return masked_ * std::pow(static_cast<double>(moment.uniform(moment.begin, 1)), 1.0 / count);
  }

  double masked_ = 1; // mask probability at the time that was reached
  PlannedChoices events_;
};

std::unique_ptr<Policy> make_first_hitting(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<FirstHitting>(); });
}

} // namespace

PolicyKind policy_files::first_hitting() {
  return {"first_hitting", make_first_hitting, {}};
}

} // namespace dllm::decode
