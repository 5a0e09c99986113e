// Low-confidence remasking (LLaDA, Nie et al. 2025, algorithm 5): predict every open position of
// the block, keep the most confident of them, as many as the schedule says; the others stay masked.

#include "decode/policies/rules.h"
#include "decode/policies/table.h"
#include "decode/request/blockwise.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class LowConfidence final : public UnmaskingRule {
public:
  explicit LowConfidence(bool even) : even_(even) {}

  void start(const StepContext& moment) override {
    const auto open = static_cast<int64_t>(moment.open.size());
    transfer_ = even_ ? even_counts(open, moment.steps)
                      : transfer_counts(moment.schedule, open, moment.steps);
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    std::vector<double> scores;
    for (const Prediction& p : predictions) scores.push_back(static_cast<double>(p.probability));
    Choice choice;
    choice.decided = largest(scores, transfer_at(transfer_, moment.request.step_in_block));
    return choice;
  }

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    fill_planned(transfer_, moment, tables);
  }
  int64_t most_steps(int64_t block_length, int64_t steps) const override {
    return std::min(block_length, steps);
  }

private:
  bool even_;
  std::vector<int64_t> transfer_;
};

std::unique_ptr<Policy> make_low_confidence(const PolicySetup& setup) {
  const bool even = setup.options.str("plan") == "even";
  return std::make_unique<BlockwisePolicy>(
      setup, [even](const PolicySetup&) { return std::make_unique<LowConfidence>(even); },
      [] { return planned_loop(PlannedScore::probability); });
}

std::vector<OptionSpec> low_confidence_keys() {
  return {option_choice("plan", "schedule", {"schedule", "even"},
                        "How many positions a step decides: as the schedule says, or the same "
                        "number in each and what is left over in the first ones (LLaDA's own).")};
}

} // namespace

PolicyKind policy_files::low_confidence() {
  return {"low_confidence", make_low_confidence, low_confidence_keys()};
}

} // namespace dllm::decode
