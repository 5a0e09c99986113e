// Confidence-based remasking over the whole answer (Mask-Predict, Ghazvininejad et al. 2019;
// MaskGIT's schedules, Chang et al. 2022). Every step predicts the open positions, keeps the most
// confident tokens, and opens the other positions again, earlier ones too. After step k of n,
// floor(open * g(k / n)) positions are open.

#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace dllm::decode {
namespace {

// Likeliest tokens of a prediction that are compared with a visible token. A visible token that is
// not among them counts as impossible.
constexpr int64_t kRescoredTokens = 64;

enum class Revise { none, stored, rescore };
enum class Masked { linear, cosine, sqrt };

struct RemaskingSettings {
  Revise revise;
  Masked masked;
  double noise;
};

double share(Masked masked, double r) {
  switch (masked) {
  case Masked::linear: return 1 - r;
  case Masked::cosine: return std::cos(std::numbers::pi / 2 * r);
  default: return 1 - std::sqrt(r);
  }
}

class ConfidenceRemasking final : public UnmaskingRule {
public:
  explicit ConfidenceRemasking(const RemaskingSettings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<ConfidenceRemasking>(*this);
  }

  void start(const StepContext& moment) override {
    count_ = static_cast<int64_t>(moment.open.size());
  }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    std::vector<int64_t> positions;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      const State state = moment.request.states[static_cast<size_t>(i)];
      const bool again = settings_.revise == Revise::rescore && state == State::provisional;
      if (state == State::masked || again) positions.push_back(i);
    }
    return positions;
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    std::vector<Scored> all = scored(moment, predictions);
    const double left = static_cast<double>(moment.steps - moment.request.step_in_block - 1) /
                        static_cast<double>(moment.steps);
    if (settings_.noise > 0) {
      for (Scored& one : all) one.score += settings_.noise * left * gumbel(moment, one.position);
    }
    std::vector<double> scores;
    for (const Scored& one : all) scores.push_back(one.score);
    const int64_t kept = static_cast<int64_t>(all.size()) - to_mask(moment);
    std::vector<uint8_t> keep(all.size(), 0);
    for (const size_t i : largest(scores, kept)) keep[i] = 1;

    Choice choice;
    choice.state = State::provisional;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool visible = !moment.request.is_open(all[i].position);
      if (keep[i] != 0 && !visible) choice.decided.push_back(all[i].prediction);
      if (keep[i] == 0 && visible) choice.remask.push_back(all[i].position);
    }
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    return (moment.open.empty() || moment.chosen) && moment.request.step_in_block >= moment.steps;
  }

private:
  struct Scored {
    int64_t position;
    size_t prediction; // index of the prediction of an open position
    double score;      // ln of the probability
  };

  // Returns the number of positions to leave open. Without revision a step before the last decides
  // at least one position.
  int64_t to_mask(const StepContext& moment) const {
    const int64_t done = moment.request.step_in_block + 1;
    if (done >= moment.steps) return 0;
    // 1e-9 corrects the rounding of cos(pi / 3), which is slightly more or less than a half.
    const double wanted =
        static_cast<double>(count_) *
        share(settings_.masked, static_cast<double>(done) / static_cast<double>(moment.steps));
    const auto count = static_cast<int64_t>(std::floor(wanted + 1e-9));
    const auto open = static_cast<int64_t>(moment.open.size());
    return settings_.revise == Revise::none ? std::clamp<int64_t>(open - 1, 0, count) : count;
  }

  // Returns the scores of all open and provisional positions, ascending by position.
  std::vector<Scored> scored(const StepContext& moment,
                             std::span<const Prediction> predictions) const {
    std::vector<Scored> all;
    size_t next = 0;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      const State state = moment.request.states[static_cast<size_t>(i)];
      const bool predicted = next < predictions.size() && predictions[next].position == i;
      const size_t own = predicted ? next++ : predictions.size();
      if (state == State::masked)
        all.push_back({i, own, std::log(static_cast<double>(predictions[own].probability))});
      else if (state == State::provisional)
        all.push_back({i, own, visible_score(moment, i, predicted ? &predictions[own] : nullptr)});
    }
    return all;
  }

  double visible_score(const StepContext& moment, int64_t position, const Prediction* now) const {
    const auto at = static_cast<size_t>(position);
    if (settings_.revise == Revise::none) return std::numeric_limits<double>::infinity();
    if (now == nullptr) return std::log(static_cast<double>(moment.request.confidence[at]));
    const auto listed = std::find(now->top_ids.begin(), now->top_ids.end(), moment.request.ids[at]);
    if (listed == now->top_ids.end()) return -std::numeric_limits<double>::infinity();
    return std::log(
        static_cast<double>(now->top_probs[static_cast<size_t>(listed - now->top_ids.begin())]));
  }

  static double gumbel(const StepContext& moment, int64_t position) {
    const double u = std::max(1e-10, static_cast<double>(moment.uniform(position, 1)));
    return -std::log(-std::log(u));
  }

  RemaskingSettings settings_;
  int64_t count_ = 0; // open positions when the block began
};

class ConfidenceRemaskingPolicy final : public BlockwisePolicy {
public:
  ConfidenceRemaskingPolicy(const PolicySetup& setup, const RemaskingSettings& settings)
      : BlockwisePolicy(
            setup,
            [=](const PolicySetup&) { return std::make_unique<ConfidenceRemasking>(settings); }),
        top_(settings.revise == Revise::rescore ? kRescoredTokens : 1) {}
  PredictionNeeds needs() const override { return {.top = top_}; }

private:
  int64_t top_;
};

std::unique_ptr<Policy> make_confidence_remasking(const PolicySetup& setup) {
  const std::string& revise = setup.options.str("revise");
  const std::string& masked = setup.options.str("masked");
  const RemaskingSettings settings{revise == "none"     ? Revise::none
                                   : revise == "stored" ? Revise::stored
                                                        : Revise::rescore,
                                   masked == "linear"   ? Masked::linear
                                   : masked == "cosine" ? Masked::cosine
                                                        : Masked::sqrt,
                                   setup.f64("score_noise")};
  return std::make_unique<ConfidenceRemaskingPolicy>(setup, settings);
}

std::vector<OptionSpec> confidence_remasking_keys() {
  return {
      option_choice(
          "revise", "stored", {"none", "stored", "rescore"},
          "The score of a decided token. none: it stays; stored: its probability when it was "
          "decided; rescore: its probability now, which masked training does not teach."),
      option_choice("masked", "linear", {"linear", "cosine", "sqrt"},
                    "Share still masked after the share r of the steps: 1 - r, cos(pi r / 2), or "
                    "1 - sqrt(r)."),
      option_f64("score_noise", 0, 0, 1000,
                 "Gumbel noise on the logarithm of a score, falling to 0 over the steps."),
  };
}

} // namespace

PolicyKind policy_files::confidence_remasking() {
  return {"confidence_remasking", make_confidence_remasking, confidence_remasking_keys()};
}

} // namespace dllm::decode
