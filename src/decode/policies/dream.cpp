// Dream's decoding (Ye et al. 2025), which pengzhangzhi/Open-dLLM has too. A step decides the most
// confident open positions of the whole canvas. Confidence is taken from the distribution that a
// token is drawn from, after temperature and filters, with top_p before top_k.

#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace dllm::decode {
namespace {

struct DreamSettings {
  std::string alg;
  double alg_temp = 0;
  float eps = 1e-3f;
  bool schedule = false; // counts come from the noise schedule instead of the times
  bool last_step = true; // the last step decides all open positions
};

// Returns the time of a step. Times fall evenly from 1 at step 0 to eps at step `steps`. Single
// precision gives the counts of the sources.
float dream_time(int64_t step, int64_t steps, float eps) {
  const float stride = (eps - 1.0f) / static_cast<float>(steps);
  // Each half is counted from its own end, so both ends are exact.
  if (step < (steps + 1) / 2) return 1.0f + stride * static_cast<float>(step);
  return eps - stride * static_cast<float>(steps - step);
}

// Returns Gumbel noise. The largest sums of score and noise are a draw without replacement with
// probabilities proportional to exp(score) (Gumbel top-k).
double gumbel(float uniform) {
  const double u = std::max(static_cast<double>(uniform), 1e-12);
  return -std::log(-std::log(u));
}

class DreamRule final : public UnmaskingRule {
public:
  explicit DreamRule(const DreamSettings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<DreamRule>(*this);
  }

  void start(const StepContext& moment) override {
    choices_.start(moment);
    if (!settings_.schedule) return;
    transfer_ =
        transfer_counts(moment.schedule, static_cast<int64_t>(moment.open.size()), moment.steps);
  }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    if (settings_.alg != "origin")
      return count(moment) > 0 ? UnmaskingRule::wanted(moment) : none();
    std::vector<int64_t> positions;
    for (const int64_t position : moment.open) {
      if (moment.uniform(position) < revealed(moment)) positions.push_back(position);
    }
    return positions;
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    if (settings_.alg == "origin" || predictions.empty()) return all_of(predictions);
    std::vector<double> scores;
    for (const Prediction& p : predictions) {
      double score = static_cast<double>(p.shaped_probability);
      if (settings_.alg == "topk_margin") score = static_cast<double>(p.shaped_margin);
      if (settings_.alg == "entropy") score = -static_cast<double>(p.shaped_entropy);
      if (settings_.alg_temp > 0)
        score = score / settings_.alg_temp + gumbel(moment.uniform(p.position));
      scores.push_back(score);
    }
    Choice choice;
    choice.decided = largest(scores, count(moment));
    choices_.count(choice);
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    if (settings_.schedule) return choices_.over(moment);
    const bool planned = moment.request.step_in_block >= moment.steps;
    return moment.open.empty() || (planned && (moment.chosen || !settings_.last_step));
  }

private:
  static std::vector<int64_t> none() { return {}; }

  // Returns the share of the open positions that a step decides: 1 - s / t.
  float revealed(const StepContext& moment) const {
    const int64_t step = moment.request.step_in_block, steps = moment.steps;
    if (step + 1 >= steps && settings_.last_step) return 1.0f;
    return 1.0f -
           dream_time(step + 1, steps, settings_.eps) / dream_time(step, steps, settings_.eps);
  }

  int64_t count(const StepContext& moment) const {
    if (settings_.schedule) return transfer_at(transfer_, moment.request.step_in_block);
    return static_cast<int64_t>(static_cast<float>(moment.open.size()) * revealed(moment));
  }

  DreamSettings settings_;
  std::vector<int64_t> transfer_;
  PlannedChoices choices_; // used with plan schedule
};

// Path planning (P2, Peng et al. 2025, self-planning). A step predicts every position that was not
// given, keeps the most confident (step + 1) / steps of them, and opens the others again.
class P2Rule final : public UnmaskingRule {
public:
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<P2Rule>(*this); }
  std::vector<int64_t> wanted(const StepContext& moment) const override {
    std::vector<int64_t> positions;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      if (moment.request.states[static_cast<size_t>(i)] != State::fixed) positions.push_back(i);
    }
    return positions;
  }

  // A decided position keeps its token, but its confidence is the probability of the token drawn
  // now.
  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    std::vector<double> doubts;
    for (const Prediction& p : predictions)
      doubts.push_back(-static_cast<double>(p.shaped_probability));
    std::vector<bool> masked(predictions.size(), false);
    for (const size_t i : largest(doubts, masks_after(moment, predictions.size())))
      masked[i] = true;
    Choice choice;
    choice.state = State::provisional;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const bool open = moment.request.is_open(predictions[i].position);
      if (masked[i] && !open) choice.remask.push_back(predictions[i].position);
      if (!masked[i] && open) choice.decided.push_back(i);
    }
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    return moment.open.empty() || (moment.chosen && moment.request.step_in_block >= moment.steps);
  }

private:
  static int64_t masks_after(const StepContext& moment, size_t count) {
    const auto step = static_cast<double>(std::min(moment.request.step_in_block + 1, moment.steps));
    const double kept = step / static_cast<double>(moment.steps);
    return static_cast<int64_t>(static_cast<float>(count) * static_cast<float>(1.0 - kept));
  }
};

DreamSettings dream_settings(const PolicySetup& setup) {
  DreamSettings settings;
  settings.alg = setup.options.str("alg");
  settings.alg_temp = setup.f64("alg_temp");
  settings.eps = static_cast<float>(setup.f64("eps"));
  settings.schedule = setup.options.str("plan") == "schedule";
  settings.last_step = setup.options.str("compat") != "open-dllm";
  const bool counts = settings.alg != "origin" && settings.alg != "p2";
  if (!counts && settings.alg_temp > 0) {
    fail_with_hint("use maskgit_plus, topk_margin or entropy, or alg_temp 0",
                   Code::invalid_argument,
                   "alg_temp {} draws among confidences, which alg {} does "
                   "not rank",
                   settings.alg_temp, settings.alg);
  }
  if (!counts && settings.schedule) {
    fail_with_hint("use maskgit_plus, topk_margin or entropy, or plan times",
                   Code::invalid_argument, "alg {} has its own plan", settings.alg);
  }
  return settings;
}

class DreamSession final : public BlockwiseSession {
public:
  using BlockwiseSession::BlockwiseSession;
  std::unique_ptr<Session> clone() const override { return std::make_unique<DreamSession>(*this); }
  // The source runs the model in every step, even if the step decides no position.
  int64_t nfe(const Request& request) const override { return request.steps; }
};

class DreamPolicy final : public BlockwisePolicy {
public:
  explicit DreamPolicy(const PolicySetup& setup)
      : BlockwisePolicy(setup, [settings = dream_settings(setup)](const PolicySetup&) {
          return settings.alg == "p2" ? std::unique_ptr<UnmaskingRule>(std::make_unique<P2Rule>())
                                      : std::make_unique<DreamRule>(settings);
        }) {}

  std::unique_ptr<Session> begin(Request& request) const override {
    return std::make_unique<DreamSession>(settings(), setup().schedule, rule(), request);
  }
  PredictionNeeds needs() const override { return {.shaped = true, .nucleus_first = true}; }
};

std::unique_ptr<Policy> make_dream(const PolicySetup& setup) {
  return std::make_unique<DreamPolicy>(setup);
}

std::vector<OptionSpec> dream_keys() {
  return {
      option_choice(
          "alg", "entropy", {"entropy", "maskgit_plus", "origin", "p2", "topk_margin"},
          "Which positions a step decides first. entropy: low entropy; maskgit_plus: high "
          "probability; origin: each by chance; p2: the most probable positions, and the others "
          "are masked again; topk_margin: a large lead over the second token."),
      option_f64("alg_temp", 0, 0, 100,
                 "Draws the positions with chances exp(confidence / alg_temp); 0: the most "
                 "confident ones."),
      option_choice("plan", "times", {"times", "schedule"},
                    "How many positions a step decides. times: open * (1 - s / t) rounded down on "
                    "even times from 1 to eps, the rest in the last step, as Dream's own loop; "
                    "schedule: as the noise schedule says."),
      option_f64("eps", 1e-3, 0, 0.5, "The last time of plan times, and of alg origin."),
      option_choice("compat", "none", {"none", "open-dllm"},
                    "open-dllm: the last step decides at most its share, as mdm_generate does, so "
                    "that masks may stay."),
  };
}

} // namespace

PolicyKind policy_files::dream() {
  return {"dream", make_dream, dream_keys()};
}

} // namespace dllm::decode
