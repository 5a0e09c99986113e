// Credit decoding (dInfer, CreditDecoding). A token earns credit when it is the likeliest token of
// its position in a step of the block. Credit is fused into the logits before the threshold rule,
// so steady predictions pass the threshold earlier.
//   credit(v) <- decay credit(v), then + max_probability ^ boost for the likeliest token
//   logit'(v) = logit(v) + alpha ln(1 + credit(v))
// A token without credit is never likelier than the token that has just earned some. So only the
// probabilities of the few tokens with credit are needed.

#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dllm::decode {
namespace {

// Likeliest tokens that a prediction lists. A token with credit that is not among them counts as
// impossible.
constexpr int64_t kCreditTokens = 64;

struct CreditSettings {
  double threshold, alpha, boost, decay;
  int32_t mask_id;
};

class Credit final : public UnmaskingRule {
public:
  explicit Credit(const CreditSettings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<Credit>(*this); }

  void start(const StepContext&) override { credit_.clear(); }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    for (auto& [position, tokens] : credit_) {
      for (auto& [token, credit] : tokens) credit *= settings_.decay;
    }
    for (const Prediction& p : predictions) {
      credit_[p.position][p.argmax] +=
          std::pow(static_cast<double>(p.max_probability), settings_.boost);
    }
    std::vector<Prediction> fused(predictions.begin(), predictions.end());
    for (Prediction& p : fused) fuse(p, moment.request.settings.temperature == 0);
    const Eligible all = eligible(fused, settings_.mask_id);
    const std::vector<double> scores = confidences(all.candidates);
    const double best = *std::max_element(scores.begin(), scores.end());
    Choice choice;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] < std::min(best - 1e-5, settings_.threshold)) continue;
      choice.decided.push_back(all.index[i]);
      choice.tokens.push_back({all.candidates[i]->token, all.candidates[i]->probability});
    }
    return choice;
  }

private:
  // Applies the credit to the distribution of one position. A drawn token keeps its place and gets
  // its fused probability. At temperature 0 the likeliest fused token replaces it.
  void fuse(Prediction& p, bool likeliest) {
    double sum = 1, best = -1, own = p.probability;
    int32_t token = p.token;
    for (const auto& [id, credit] : credit_[p.position]) {
      const auto listed = std::find(p.top_ids.begin(), p.top_ids.end(), id);
      if (listed == p.top_ids.end()) continue;
      const double before = p.top_probs[static_cast<size_t>(listed - p.top_ids.begin())];
      const double after = before * std::pow(1.0 + credit, settings_.alpha);
      sum += after - before;
      if (id == p.token) own = after;
      if (after > best) best = after, token = id;
    }
    if (likeliest && best >= 0) own = best, p.token = token;
    p.probability = static_cast<float>(own / sum);
  }

  CreditSettings settings_;
  std::map<int64_t, std::map<int32_t, double>> credit_; // by position and token
};

class CreditPolicy final : public BlockwisePolicy {
public:
  CreditPolicy(const PolicySetup& setup, const CreditSettings& settings)
      : BlockwisePolicy(setup,
                        [=](const PolicySetup&) { return std::make_unique<Credit>(settings); }) {}
  PredictionNeeds needs() const override { return {.top = kCreditTokens}; }
};

std::unique_ptr<Policy> make_credit(const PolicySetup& setup) {
  return std::make_unique<CreditPolicy>(
      setup, CreditSettings{as_f32(setup.f64("threshold")), setup.f64("credit_alpha"),
                            setup.f64("boost_gamma"), setup.f64("decay_beta"), setup.mask_id});
}

std::vector<OptionSpec> credit_keys() {
  return {
      option_f64("threshold", 0.9, 0, 1,
                 "Positions at least this probable, credit included, are decided; at least one."),
      option_f64("credit_alpha", 0.7, 0, 100, "How much credit adds to a logit."),
      option_f64(
          "boost_gamma", 0.2, 0, 100,
          "A step adds the probability to this power to the credit; 0: all tokens earn the same."),
      option_f64("decay_beta", 0.8, 0, 1, "Factor of the earlier credit in every step."),
  };
}

} // namespace

PolicyKind policy_files::credit() {
  return {"credit", make_credit, credit_keys()};
}

} // namespace dllm::decode
