// WeDLM (Tencent 2025; Tencent/WeDLM). A window of masks follows the decided tokens, under causal
// attention. The order of the window is decided tokens first, then masks, and RoPE turns each by
// its own position. So tokens that are decided without a gap before them are computed as in
// next-token decoding, and their K and V are kept.

#include "base/error.h"
#include "decode/policies/policies.h"

#include <algorithm>

namespace dllm::decode {
namespace {

struct WedlmSettings {
  int64_t window = 16;
  double threshold = 0.4; // limit of entropy plus penalty, in nats
  double penalty = 0.02;
  int32_t mask_id = 0;
  bool cached = true;
};

class WedlmSession final : public Session {
public:
  WedlmSession(const WedlmSettings& settings, Request& request) : settings_(settings) {
    request.origin = request.prompt;
    request.block_length = std::max<int64_t>(request.length() - request.prompt, 1);
    if (request.open_count(0, request.length()) == 0) request.finish = Finish::decided;
  }
  std::unique_ptr<Session> clone() const override { return std::make_unique<WedlmSession>(*this); }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    const int64_t first = first_open(request);
    PassRequest pass;
    pass.end = std::min(first + settings_.window, request.length());
    pass.positions = request.open_positions(first, pass.end);
    pass.shift = 0;
    // After the first mask the window holds decided tokens, then all masks.
    for (int64_t i = first; i < pass.end; ++i) {
      if (!request.is_open(i)) pass.order.push_back(i);
    }
    pass.order.insert(pass.order.end(), pass.positions.begin(), pass.positions.end());
    if (!settings_.cached) return pass;
    pass.cached = true;
    pass.generation = cache.generation;
    pass.final_end = first;
    pass.begin = std::min(cache.final_end, first);
    return pass;
  }

  Outcome apply(Request& request, const PassRequest&,
                std::span<const Prediction> predictions) override {
    const Eligible all = eligible(predictions, settings_.mask_id);
    const int64_t first = predictions.front().position;
    std::vector<double> scores;
    for (const Prediction* p : all.candidates)
      scores.push_back(p->entropy + settings_.penalty * static_cast<double>(p->position - first));
    const double least = *std::min_element(scores.begin(), scores.end());
    std::vector<int64_t> decided;
    for (size_t i = 0; i < scores.size(); ++i) {
      const bool alone = least >= settings_.threshold && scores[i] == least && decided.empty();
      if (scores[i] >= settings_.threshold && !alone) continue;
      const Prediction& p = *all.candidates[i];
      request.decide(p.position, p.token, p.probability);
      decided.push_back(p.position);
    }
    return host_decided(request, decided);
  }

  Outcome host_decided(Request& request, const std::vector<int64_t>& decided) override {
    ++request.step_in_block;
    const bool done = first_open(request) == request.length();
    if (done) request.finish = Finish::decided;
    return {decided, request.block, request.block_begin(), request.block_end(), done};
  }

private:
  static int64_t first_open(const Request& request) {
    const auto found = std::find(request.states.begin(), request.states.end(), State::masked);
    return found - request.states.begin();
  }

  WedlmSettings settings_;
};

class WedlmPolicy final : public Policy {
public:
  explicit WedlmPolicy(const PolicySetup& setup) : Policy(setup) {
    const std::string attention = setup.options.str("attention");
    if (attention != "auto" && attention != "causal")
      fail_with_hint("leave option attention at auto", Code::invalid_argument,
                     "policy wedlm decodes with causal attention, not {}", attention);
    if (setup.f64("guidance") > 0)
      fail_with_hint("set guidance to 0", Code::invalid_argument, "policy wedlm has no guidance");
    settings_.window = setup.i64("window");
    settings_.threshold = as_f32(setup.f64("entropy_threshold"));
    settings_.penalty = setup.f64("position_penalty");
    settings_.mask_id = setup.mask_id;
    settings_.cached = cache_mode(setup.options.str("cache"), kCausal) != CacheMode::none;
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = kCausal;
    return std::make_unique<WedlmSession>(settings_, request);
  }

private:
  static constexpr AttentionSpan kCausal{1, 0, false};
  WedlmSettings settings_;
};

std::unique_ptr<Policy> make_wedlm(const PolicySetup& setup) {
  return std::make_unique<WedlmPolicy>(setup);
}

std::vector<OptionSpec> wedlm_keys() {
  return {
      option_i64("window", 16, 1, 1 << 24,
                 "Positions from the first mask on that a step looks at."),
      option_f64("entropy_threshold", 0.4, 0, 100,
                 "Masks whose entropy plus penalty is less than this (nats) are decided; if there "
                 "is none, the mask with the least. 0: one per step."),
      option_f64("position_penalty", 0.02, 0, 100,
                 "Added to the entropy for every position after the first mask."),
  };
}

} // namespace

PolicyKind policy_files::wedlm() {
  return {"wedlm", make_wedlm, wedlm_keys()};
}

} // namespace dllm::decode
