// Policies that open decided positions again with a probability that the schedule sets: remdm, and
// ddim, its special case with the largest freedom.
#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>
#include <cmath>

namespace dllm::decode {

// ReMDM (Wang et al. 2025): ancestral sampling that may open a decided position again with
// probability sigma, and decides more positions in return. For sigma up to (1 - alpha(s)) /
// alpha(t) the expected share of clean tokens equals the share in ancestral sampling. So every
// model that was trained for ancestral sampling can be used.
//   open position: decided with (alpha(s) - (1 - sigma) alpha(t)) / (1 - alpha(t))
//   decided position: opened again with sigma

namespace {

enum class Variant { cap, rescale, conf, loop };

struct RemdmSettings {
  Variant variant;
  double eta, t_on, t_off, alpha_on;
};

class ReMdm final : public UnmaskingRule {
public:
  explicit ReMdm(const RemdmSettings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<ReMdm>(*this); }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    const double reveal = step(moment).reveal;
    std::vector<int64_t> positions;
    for (const int64_t position : moment.open) {
      if (moment.uniform(position) < reveal) positions.push_back(position);
    }
    return positions;
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    Choice choice = all_of(predictions);
    choice.state = State::provisional;
    const double sigma = step(moment).sigma;
    const double weights = settings_.variant == Variant::conf ? total_doubt(moment) : 1;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      if (moment.request.states[static_cast<size_t>(i)] != State::provisional) continue;
      const double own = settings_.variant == Variant::conf ? doubt(moment, i) / weights : 1;
      if (moment.uniform(i, 2) < sigma * own) choice.remask.push_back(i);
    }
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    return (moment.open.empty() || moment.chosen) && moment.request.step_in_block >= moment.steps;
  }

private:
  struct Step {
    double sigma, reveal;
  };

  // Returns the share of clean tokens at time t. It is the schedule's alpha, except under variant
  // loop. There it rises to alpha_on until t_on, stays until t_off while tokens are exchanged, then
  // rises to 1.
  double alpha(const StepContext& moment, double t) const {
    if (t <= 0) return 1;
    if (settings_.variant != Variant::loop) return moment.schedule.alpha(t);
    const RemdmSettings& own = settings_;
    if (t > own.t_on) return own.alpha_on * (1 - t) / (1 - own.t_on);
    return t > own.t_off ? own.alpha_on : 1 - t * (1 - own.alpha_on) / own.t_off;
  }

  Step step(const StepContext& moment) const {
    const double t = moment.t(), s = moment.s();
    const double now = alpha(moment, t), next = alpha(moment, s);
    const double most = now > 0 ? std::min(1.0, (1 - next) / now) : 1.0;
    const bool waiting = t <= settings_.t_on && t > settings_.t_off;
    Step made{most, 1};
    switch (settings_.variant) {
    case Variant::cap: made.sigma = std::min(settings_.eta, most); break;
    case Variant::rescale: made.sigma = settings_.eta * most; break;
    case Variant::conf: break; // each position has its own part of sigma
    case Variant::loop: made.sigma = waiting ? std::min(settings_.eta, most) : 0; break;
    }
    // Under conf open positions have no weight.
    const double stays = 1 - (settings_.variant == Variant::conf ? 0 : made.sigma);
    if (now < 1) made.reveal = std::clamp((next - stays * now) / (1 - now), 0.0, 1.0);
    return made;
  }

  // Returns the weight of a position under conf: exp(-p), where p is the probability of its token
  // when it was decided.
  static double doubt(const StepContext& moment, int64_t position) {
    return std::exp(-static_cast<double>(moment.request.confidence[static_cast<size_t>(position)]));
  }
  static double total_doubt(const StepContext& moment) {
    double sum = 0;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      if (moment.request.states[static_cast<size_t>(i)] == State::provisional)
        sum += doubt(moment, i);
    }
    return sum;
  }

  RemdmSettings settings_;
};

RemdmSettings remdm_settings(const PolicySetup& setup) {
  const std::string& name = setup.options.str("variant");
  const Variant variant = name == "cap"       ? Variant::cap
                          : name == "rescale" ? Variant::rescale
                          : name == "conf"    ? Variant::conf
                                              : Variant::loop;
  const double t_on = setup.f64("t_on"), t_off = setup.f64("t_off");
  if (t_off >= t_on) {
    fail_with_hint("choose t_off below t_on", Code::invalid_argument,
                   "t_off {} is not below t_on {}: tokens would never be exchanged", t_off, t_on);
  }
  return {variant, setup.f64("eta"), t_on, t_off, setup.f64("alpha_on")};
}

std::unique_ptr<Policy> make_remdm(const PolicySetup& setup) {
  const RemdmSettings settings = remdm_settings(setup);
  return std::make_unique<BlockwisePolicy>(
      setup, [=](const PolicySetup&) { return std::make_unique<ReMdm>(settings); });
}

std::vector<OptionSpec> remdm_keys() {
  return {
      option_choice("variant", "cap", {"cap", "rescale", "conf", "loop"},
                    "Probability that a decided token is masked again. cap: eta; rescale: eta "
                    "times the largest possible one; conf: larger for less confident tokens; loop: "
                    "eta while the loop waits."),
      option_f64("eta", 0.02, 0, 1, "Probability to mask a decided token again; not with conf."),
      option_f64("t_on", 0.55, 1e-6, 0.999999, "loop: the time at which exchanging begins."),
      option_f64("t_off", 0.05, 1e-6, 0.999999, "loop: the time at which exchanging ends."),
      option_f64("alpha_on", 0.9, 1e-6, 0.999999,
                 "loop: the share of clean tokens while it exchanges."),
  };
}

} // namespace

PolicyKind policy_files::remdm() {
  return {"remdm", make_remdm, remdm_keys()};
}

// Re-corrupting steps (nano-dlm's ddim_step). Every open position is predicted. Then every decided
// position, old or new, is kept with probability alpha(s) and opened again otherwise. This applies
// the forward process to the completed guess. It equals ReMDM with sigma = 1 - alpha(s), so it
// revises freely and keeps the share of clean tokens of ancestral sampling.

namespace {

class Ddim final : public UnmaskingRule {
public:
  explicit Ddim(int32_t mask_id) : mask_id_(mask_id) {}
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<Ddim>(*this); }

  double time(const StepContext& moment) const override { return at(moment, 0); }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    const bool last = moment.request.step_in_block + 1 >= moment.steps;
    const double keep = last ? 1 : moment.schedule.alpha(at(moment, 1));
    const auto stays = [&](int64_t position) { return last || moment.uniform(position) < keep; };
    Choice choice;
    choice.state = State::provisional;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const bool guessed = last || predictions[i].token != mask_id_;
      if (guessed && stays(predictions[i].position)) choice.decided.push_back(i);
    }
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      const bool decided = moment.request.states[static_cast<size_t>(i)] == State::provisional;
      if (decided && !stays(i)) choice.remask.push_back(i);
    }
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    return (moment.open.empty() || moment.chosen) && moment.request.step_in_block >= moment.steps;
  }

private:
  // Returns the time after `ahead` more steps. Under a schedule of discrete times it is the next
  // lower one, computed in single precision as in the published loop.
  static double at(const StepContext& moment, int64_t ahead) {
    const int64_t step = moment.request.step_in_block + ahead, times = moment.schedule.steps();
    if (times == 0)
      return static_cast<double>(moment.steps - step) / static_cast<double>(moment.steps);
    const float share = 1.0f - static_cast<float>(step) * (1.0f / static_cast<float>(moment.steps));
    return std::floor(static_cast<float>(times) * share) / static_cast<double>(times);
  }

  int32_t mask_id_;
};

std::unique_ptr<Policy> make_ddim(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup& own) { return std::make_unique<Ddim>(own.mask_id); });
}

} // namespace

PolicyKind policy_files::ddim() {
  return {"ddim", make_ddim, {}};
}

} // namespace dllm::decode
