#include "decode/policies/policies.h"

#include "base/error.h"
#include "graph/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dllm::decode {
namespace {

class ConfidenceRule final : public UnmaskingRule {
public:
  ConfidenceRule(Select select, int32_t mask_id) : select_(std::move(select)), mask_id_(mask_id) {}
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<ConfidenceRule>(*this);
  }

  Choice choose(const StepContext&, std::span<const Prediction> predictions) override {
    const Eligible all = eligible(predictions, mask_id_);
    Choice choice;
    for (const size_t chosen : select_(all.candidates)) choice.decided.push_back(all.index[chosen]);
    return choice;
  }

private:
  Select select_;
  int32_t mask_id_;
};

} // namespace

std::vector<double> confidences(const Candidates& candidates) {
  std::vector<double> scores;
  for (const Prediction* p : candidates) scores.push_back(static_cast<double>(p->probability));
  return scores;
}

Eligible eligible(std::span<const Prediction> predictions, int32_t mask_id) {
  Eligible all;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (predictions[i].token == mask_id) continue;
    all.candidates.push_back(&predictions[i]);
    all.index.push_back(i);
  }
  if (all.candidates.empty() && !predictions.empty()) {
    fail_with_hint("set suppress_mask to true", Code::failed_precondition,
                   "all {} open positions are predicted to be the mask token {}",
                   predictions.size(), mask_id);
  }
  return all;
}

ConfidencePolicy::ConfidencePolicy(const PolicySetup& setup, Select select, int64_t top,
                                   LoopMaker make_loop)
    : BlockwisePolicy(
          setup,
          [select = std::move(select)](const PolicySetup& own) {
            return std::make_unique<ConfidenceRule>(select, own.mask_id);
          },
          std::move(make_loop)),
      top_(top) {}

namespace {

using graph::Value;

class CandidateLoop final : public LoopRule {
public:
  CandidateLoop(SelectGraph select, int32_t mask_id)
      : select_(std::move(select)), mask_id_(mask_id) {}

  LoopChoice choose(const LoopContext& moment, const PredictionValues& predicted) const override {
    const Value masked = graph::equal(predicted.token, graph::scalar_i32(moment.graph, mask_id_));
    const Value candidates = without(moment.open, masked);
    const CandidateChoice chosen = select_(moment, predicted, candidates);
    LoopChoice choice;
    choice.decided = first_of(chosen.order, chosen.count, candidates);
    choice.stuck = graph::logical_not(any_of(candidates));
    choice.carry = chosen.carry;
    return choice;
  }

private:
  SelectGraph select_;
  int32_t mask_id_;
};

} // namespace

LoopOffer candidate_loop(SelectGraph select, int32_t mask_id) {
  return {std::make_unique<CandidateLoop>(std::move(select), mask_id), ""};
}

Value sorted_by(const LoopOrder& order, Value x) {
  return graph::take_along(x, order.at, 1);
}

Value count_of(Value flags) {
  return graph::sum(graph::convert(flags, DType::i32), {1});
}

Value prefix_of(Value flags) {
  const Value failed = graph::cumsum(graph::convert(graph::logical_not(flags), DType::i32), 1);
  return count_of(graph::equal(failed, graph::scalar_i32(*flags.graph, 0)));
}

Value in_use(Value count, const Shape& shape) {
  return graph::less(graph::iota(*count.graph, shape, DType::i32, 1), per_row(count));
}

namespace {

class PlannedLoop final : public LoopRule {
public:
  PlannedLoop(PlannedScore score, int32_t mask_id) : score_(score), mask_id_(mask_id) {}
  int32_t reopening() const override { return mask_id_; }
  bool uses_chance() const override { return score_ == PlannedScore::chance; }

  LoopChoice choose(const LoopContext& moment, const PredictionValues& predicted) const override {
    const LoopOrder order =
        order_of(uses_chance() ? moment.chance : predicted.probability, moment.open, true);
    return planned_choice(moment, first_of(order, moment.count, moment.open));
  }

private:
  PlannedScore score_;
  int32_t mask_id_;
};

} // namespace

LoopOffer planned_loop(PlannedScore score, int32_t mask_id) {
  return {std::make_unique<PlannedLoop>(score, mask_id), ""};
}

LoopChoice planned_choice(const LoopContext& moment, Value decided) {
  const Value left = graph::subtract(moment.carry, count_of(decided));
  LoopChoice choice;
  choice.decided = decided;
  choice.carry = left;
  choice.over = graph::less(left, graph::scalar_i32(moment.graph, 1));
  return choice;
}

void fill_planned(const std::vector<int64_t>& transfer, const PlannedChoices& choices,
                  const StepContext& moment, LoopTables& tables) {
  tables.carry = static_cast<int32_t>(choices.left());
  for (size_t i = 0; i < tables.count.size(); ++i) {
    tables.count[i] = static_cast<int32_t>(
        transfer_at(transfer, moment.request.step_in_block + static_cast<int64_t>(i)));
  }
}

namespace {

// Rounds to the nearest integer, ties to even. Unlike std::nearbyint it ignores the rounding mode
// of the host.
int64_t round_half_even(double x) {
  const double low = std::floor(x);
  const double rest = x - low;
  const auto whole = static_cast<int64_t>(low);
  if (rest > 0.5) return whole + 1;
  if (rest < 0.5) return whole;
  return whole % 2 == 0 ? whole : whole + 1;
}

// Returns 1 - alpha(t). Every operation is in single precision as in the published schedule, so
// ties of the rounding in transfer_counts come out the same. Discrete times are not rounded to f32.
float masked_share(const noise::Schedule& schedule, double t) {
  const double at = schedule.steps() > 0 ? t : static_cast<double>(static_cast<float>(t));
  return 1.0f - static_cast<float>(schedule.alpha(at));
}

} // namespace

std::vector<int64_t> transfer_counts(const noise::Schedule& schedule, int64_t open, int64_t steps) {
  std::vector<int64_t> counts;
  int64_t left = open;
  for (int64_t j = 0; j < steps && left > 0; ++j) {
    const double t = static_cast<double>(steps - j) / static_cast<double>(steps);
    const double s = static_cast<double>(steps - j - 1) / static_cast<double>(steps);
    const float stay = masked_share(schedule, s) / masked_share(schedule, t);
    const double reveal = s <= 0 ? 1.0 : 1.0 - static_cast<double>(stay);
    const int64_t count = std::min(round_half_even(static_cast<double>(left) * reveal), left);
    if (count <= 0) continue;
    counts.push_back(count);
    left -= count;
  }
  return counts;
}

std::vector<int64_t> even_counts(int64_t open, int64_t steps) {
  std::vector<int64_t> counts;
  for (int64_t j = 0; j < std::min(steps, open); ++j)
    counts.push_back(open / steps + (j < open % steps ? 1 : 0));
  return counts;
}

int64_t transfer_at(const std::vector<int64_t>& transfer, int64_t step) {
  return step < static_cast<int64_t>(transfer.size()) ? transfer[static_cast<size_t>(step)]
                                                      : INT32_MAX;
}

} // namespace dllm::decode
