// Dream's decoding (Ye et al. 2025), which pengzhangzhi/Open-dLLM has too:
// open positions of the whole canvas, the surest first. How sure is told by the distribution
// a token is drawn from, after temperature and filters, top_p before top_k.

#include "base/error.h"
#include "decode/policies/dream_rules.h"

namespace dllm::decode {
namespace {

DreamSettings settings_of(const PolicySetup& setup) {
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
                   Code::invalid_argument, "alg {} has a plan of its own", settings.alg);
  }
  return settings;
}

class DreamSession final : public BlockwiseSession {
public:
  using BlockwiseSession::BlockwiseSession;
  // The source runs the model in every step, also where none is decided.
  int64_t nfe(const Slot& slot) const override { return slot.steps; }
};

class DreamPolicy final : public BlockwisePolicy {
public:
  explicit DreamPolicy(const PolicySetup& setup)
      : BlockwisePolicy(setup, [settings = settings_of(setup)](const PolicySetup&) {
          return settings.alg == "p2" ? make_p2_rule() : make_dream_rule(settings);
        }) {}

  std::unique_ptr<Session> begin(Slot& slot) const override {
    return std::make_unique<DreamSession>(settings(), setup().schedule, rule(), slot);
  }
  bool shaped() const override { return true; }
  bool nucleus_first() const override { return true; }
};

} // namespace

std::unique_ptr<Policy> make_dream(const PolicySetup& setup) {
  return std::make_unique<DreamPolicy>(setup);
}

std::vector<OptionSpec> dream_keys() {
  return {
      option_choice("alg", "entropy", {"entropy", "maskgit_plus", "origin", "p2", "topk_margin"},
                    "What a step decides first: tokens of low entropy, of high probability, any "
                    "(each by chance), the surest of all with the others masked again, tokens far "
                    "ahead of the second."),
      option_f64("alg_temp", 0, 0, 100,
                 "Draws the positions with chances exp(confidence / alg_temp); 0: the surest."),
      option_choice("plan", "times", {"times", "schedule"},
                    "How many positions a step decides. times: open * (1 - s / t) rounded down on "
                    "even times from 1 to eps, the rest in the last step, as Dream's own loop; "
                    "schedule: as the noise schedule says."),
      option_f64("eps", 1e-3, 0, 0.5, "The last time of plan times, and of alg origin."),
      option_choice("compat", "none", {"none", "open-dllm"},
                    "open-dllm: the last step decides no more than its share, as mdm_generate, so "
                    "that masks may stay."),
  };
}

} // namespace dllm::decode
