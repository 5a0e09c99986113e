// Policies that decide a planned number of positions in each step: low_confidence decides the most
// confident ones, random any.
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>

namespace dllm::decode {

// Low-confidence remasking (LLaDA, Nie et al. 2025, algorithm 5). A step predicts every open
// position of the block and decides the most confident ones. The schedule sets their number.

namespace {

class LowConfidence final : public UnmaskingRule {
public:
  explicit LowConfidence(bool even) : even_(even) {}
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<LowConfidence>(*this);
  }

  void start(const StepContext& moment) override {
    const auto open = static_cast<int64_t>(moment.open.size());
    transfer_ = even_ ? even_counts(open, moment.steps)
                      : transfer_counts(moment.schedule, open, moment.steps);
    choices_.start(moment);
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    std::vector<double> scores;
    for (const Prediction& p : predictions) scores.push_back(static_cast<double>(p.probability));
    Choice choice;
    choice.decided = largest(scores, transfer_at(transfer_, moment.request.step_in_block));
    choices_.count(choice);
    return choice;
  }

  bool block_ended(const StepContext& moment) const override { return choices_.over(moment); }

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    fill_planned(transfer_, choices_, moment, tables);
  }
  int64_t most_steps(int64_t block_length, int64_t steps) const override {
    return std::min(block_length, steps);
  }

private:
  bool even_;
  std::vector<int64_t> transfer_;
  PlannedChoices choices_;
};

std::unique_ptr<Policy> make_low_confidence(const PolicySetup& setup) {
  const bool even = setup.options.str("plan") == "even";
  return std::make_unique<BlockwisePolicy>(
      setup, [even](const PolicySetup&) { return std::make_unique<LowConfidence>(even); },
      [mask = setup.mask_id] { return planned_loop(PlannedScore::probability, mask); });
}

std::vector<OptionSpec> low_confidence_keys() {
  return {
      option_choice("plan", "schedule", {"schedule", "even"},
                    "How many positions a step decides: as the schedule says, or the same number "
                    "in each step with the remainder in the first steps (LLaDA's own).")};
}

} // namespace

PolicyKind policy_files::low_confidence() {
  return {"low_confidence", make_low_confidence, low_confidence_keys()};
}

// Random order. The positions are drawn without the model, and only these are predicted. The
// schedule sets their number.

namespace {

class Random final : public UnmaskingRule {
public:
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<Random>(*this); }
  void start(const StepContext& moment) override {
    transfer_ =
        transfer_counts(moment.schedule, static_cast<int64_t>(moment.open.size()), moment.steps);
    choices_.start(moment);
  }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    std::vector<std::pair<float, int64_t>> drawn;
    for (int64_t position : moment.open) drawn.emplace_back(moment.uniform(position), position);
    std::sort(drawn.begin(), drawn.end());
    const auto count = static_cast<size_t>(transfer_at(transfer_, moment.request.step_in_block));
    drawn.resize(std::min(drawn.size(), count));
    std::vector<int64_t> positions;
    for (const auto& [number, position] : drawn) positions.push_back(position);
    std::sort(positions.begin(), positions.end());
    return positions;
  }

  Choice choose(const StepContext&, std::span<const Prediction> predictions) override {
    Choice choice = all_of(predictions);
    choices_.count(choice);
    return choice;
  }

  bool block_ended(const StepContext& moment) const override { return choices_.over(moment); }

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    fill_planned(transfer_, choices_, moment, tables);
  }
  int64_t most_steps(int64_t block_length, int64_t steps) const override {
    return std::min(block_length, steps);
  }

private:
  std::vector<int64_t> transfer_;
  PlannedChoices choices_;
};

// Decides the open positions with the smallest random numbers.
class RandomLoop final : public LoopRule {
public:
  explicit RandomLoop(int32_t mask_id) : mask_id_(mask_id) {}
  int32_t reopening() const override { return mask_id_; }
  bool uses_chance() const override { return true; }
  graph::Value wanted(const LoopContext& moment) const override {
    return first_of(order_of(moment.chance, moment.open, false), moment.count, moment.open);
  }
  LoopChoice choose(const LoopContext& moment, const PredictionValues&) const override {
    return planned_choice(moment, wanted(moment));
  }

private:
  int32_t mask_id_;
};

std::unique_ptr<Policy> make_random(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<Random>(); },
      [mask = setup.mask_id] {
        return LoopOffer{std::make_unique<RandomLoop>(mask), ""};
      });
}

} // namespace

PolicyKind policy_files::random() {
  return {"random", make_random, {}};
}

} // namespace dllm::decode
