// Dream (Ye et al. 2025): masked diffusion with shift 1, from a next-token model. The weight of a
// masked token depends on its context (CART, context-adaptive rescheduling). With p = geo_p and m =
// 1 for masked tokens it is
//   w_j = m_j * sum over i != j with m_i = 0 of 0.5 p (1 - p)^(|i - j| - 1).
// Padding and other segments are not context; compat = dllm | dllm-jax counts them too.

#include "noise/objectives/masked.h"

namespace dllm::noise {
namespace {

class Dream final : public MaskedDiffusion {
public:
  Dream(ScheduleRef schedule, const Options& options)
      : MaskedDiffusion("dream", std::move(schedule), options, TrajectoryMasks(options)) {}
  int shift(const model::ModelConfig&) const override { return options_.i64("shift") == 0 ? 0 : 1; }

protected:
  std::vector<double> row_weights(const TokenRows& rows, int64_t row,
                                  std::span<const int32_t> targets) const override {
    if (options_.str("loss_weight") != "cart") return {};
    std::vector<double> weights(targets.size());
    add_one_side(rows, row, targets, false, weights);
    add_one_side(rows, row, targets, true, weights);
    return weights;
  }

private:
  // One running sum holds the terms that all unmasked tokens before (or after) a token add to its
  // weight.
  void add_one_side(const TokenRows& rows, int64_t row, std::span<const int32_t> targets,
                    bool backward, std::vector<double>& weights) const {
    const double p = options_.f64("geo_p");
    const size_t seq = targets.size(), begin = static_cast<size_t>(row) * seq;
    const auto segment = [&](size_t i) {
      return rows.segments.empty() || reference() ? 1 : rows.segments[begin + i];
    };
    double sum = 0;
    for (size_t k = 0; k < seq; ++k) {
      const size_t i = backward ? seq - 1 - k : k;
      const size_t last = backward ? i + 1 : i - 1;
      if (k > 0 && segment(i) != segment(last)) sum = 0;
      weights[i] += sum;
      const bool context = targets[i] < 0 && segment(i) != 0;
      sum = sum * (1 - p) + (context ? 0.5 * p : 0.0);
    }
  }
};

} // namespace

ObjectiveEntry objective_files::dream() {
  std::vector<OptionSpec> keys = masked_row_options();
  OptionSpec& weight = option_of(keys, "loss_weight");
  weight = option_choice("loss_weight", "cart", {"cart", "scheduler", "ones"},
                         "cart weighs by the context of a token, scheduler by the schedule (the "
                         "NELBO), ones by nothing.");
  keys.push_back(option_f64("geo_p", 0.3, 1e-6, 1.0,
                            "Of cart: how fast the weight of context falls with its distance."));
  return {"dream",
          "linear",
          std::move(keys),
          new_objective<Dream>,
          {.shift = 1, .policy = "dream", .sample = R"({"policy": "dream", "steps": 16})"}};
}

} // namespace dllm::noise
