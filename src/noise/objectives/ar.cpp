#include "base/error.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"

namespace dllm::noise {
namespace {

// Next-token prediction. No token is corrupted, the hidden state before a token predicts it, and
// all tokens count equally.
class Ar final : public Objective {
public:
  Ar(ScheduleRef schedule, const Options& options) : Objective(std::move(schedule), options) {
    if (options_.i64("shift") == 0) {
      fail_with_hint("leave shift out, or use the objective token_ce", Code::invalid_argument,
                     "objective ar needs shift 1: with shift 0 a token would predict itself");
    }
    const std::string& wanted = options_.str("attention");
    if (wanted != "auto" && wanted != "causal") {
      fail_with_hint("leave attention out, or choose an objective that masks tokens, as mdlm",
                     Code::invalid_argument,
                     "objective ar needs causal attention: with attention {} a token would see the "
                     "token that it predicts",
                     wanted);
    }
  }
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  bool bounds_likelihood() const override { return true; } // the loss is the likelihood

  Batch prepare_rows(const Batch& batch, uint64_t, int64_t,
                     const PrepareContext& context) const override {
    const TokenRows rows = token_rows(batch, context.vocab, true);
    TokenCeArrays made(rows.batch, rows.seq, rows.ids);
    const auto targets = made.targets.mutable_as<int32_t>();
    const auto weights = made.weights.mutable_as<float>();
    for (int64_t b = 0; b < rows.batch; ++b) {
      int64_t counted = 0;
      for (int64_t i = 0; i < rows.seq; ++i) {
        const auto at = static_cast<size_t>(b * rows.seq + i);
        if (!rows.trainable(static_cast<int64_t>(at))) continue;
        targets[at] = rows.ids[at];
        weights[at] = 1.0f;
        ++counted;
      }
      made.normalizer.mutable_as<float>()[static_cast<size_t>(b)] = static_cast<float>(counted);
    }
    return made.added_to(batch);
  }

  model::AttentionKind attention(const model::ModelConfig& config) const override {
    return options_.str("attention") == "auto" ? model::AttentionKind::causal
                                               : Objective::attention(config);
  }
  int shift(const model::ModelConfig&) const override { return 1; }

private:
  std::string name_ = "ar";
};

} // namespace

ObjectiveEntry objective_files::ar() {
  return {"ar",
          "linear",
          shared_objective_options(),
          new_objective<Ar>,
          {.rows = RowKind::clean,
           .shift = 1,
           .model = "causal",
           .policy = "autoregressive",
           .sample = R"({"policy": "autoregressive", "temperature": 0.8})",
           .sample_at_end = true,
           .likelihood = true}};
}

} // namespace dllm::noise
