// Ancestral sampling of the reverse process (MDLM, Sahoo et al. 2024, section 3.2.2): a masked
// token is revealed between t and s < t with probability (alpha(s) - alpha(t)) / (1 - alpha(t)).
// The draw does not look at the model, so only the revealed positions are predicted and a step
// without any costs nothing.

#include "decode/policies/table.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace dllm::decode {
namespace {

class Ancestral final : public UnmaskingRule {
public:
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

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    for_coming_steps(moment, tables.level.size(), [&](size_t i, const StepContext& coming) {
      tables.level[i] = float_from(reveal(coming));
    });
  }
  int64_t most_steps(int64_t /*block_length*/, int64_t steps) const override { return steps; }

private:
  static double reveal(const StepContext& moment) {
    const double s = moment.s();
    return s <= 0 ? 1.0 : 1.0 - moment.schedule.reverse_mask_prob(s, moment.t());
  }
  // The least float that is not below: a float is below one as it is below the other.
  static float float_from(double x) {
    const auto near = static_cast<float>(x);
    if (static_cast<double>(near) >= x) return near;
    return std::nextafter(near, std::numeric_limits<float>::infinity());
  }
};

class AncestralLoop final : public LoopRule {
public:
  bool uses_chance() const override { return true; }
  graph::Value wanted(const LoopContext& moment) const override {
    return graph::logical_and(moment.open, graph::less(moment.chance, per_row(moment.level)));
  }
  LoopChoice choose(const LoopContext& moment, const PredictionValues&) const override {
    return {.decided = wanted(moment)};
  }
};

std::unique_ptr<Policy> make_ancestral(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<Ancestral>(); },
      [] {
        return LoopOffer{std::make_unique<AncestralLoop>(), ""};
      });
}

} // namespace

PolicyKind policy_files::ancestral() {
  return {"ancestral", make_ancestral, {}};
}

} // namespace dllm::decode
