#include "decode/policies/planned_loop.h"

#include "decode/policies/factories.h"

namespace dllm::decode {
namespace {

class PlannedLoop final : public LoopRule {
public:
  explicit PlannedLoop(PlannedScore score) : score_(score) {}
  bool uses_chance() const override { return score_ == PlannedScore::chance; }

  LoopChoice choose(const LoopMoment& moment, const PredictionValues& said) const override {
    const LoopOrder order =
        order_of(uses_chance() ? moment.chance : said.probability, moment.open, true);
    return {.commit = first_of(order, moment.count, moment.open)};
  }

private:
  PlannedScore score_;
};

} // namespace

LoopOffer planned_loop(PlannedScore score) {
  return {std::make_unique<PlannedLoop>(score), ""};
}

void fill_planned(const std::vector<int64_t>& transfer, const Moment& moment, LoopTables& tables) {
  for (size_t i = 0; i < tables.count.size(); ++i) {
    tables.count[i] = static_cast<int32_t>(
        transfer_at(transfer, moment.slot.step_in_block + static_cast<int64_t>(i)));
  }
}

} // namespace dllm::decode
