// Linear self-speculation (Nemotron-Labs-Diffusion, NVIDIA 2026): a model that decodes both as a
// diffusion model and from left to right drafts for itself. A draft pass predicts a block of masks
// after the last token, and the block sees itself. A causal pass verifies the draft. The kept
// tokens come from the causal pass, so they are the tokens of next-token decoding. The published
// models have an adapter that is trained to draft. With adapter = drafts the causal passes leave it
// out.

#include "base/error.h"
#include "decode/policies/policies.h"

#include <algorithm>

namespace dllm::decode {
namespace {

struct DraftSettings {
  int64_t block_length = 32;
  double threshold = 0; // least confidence of a draft; 0: one pass drafts all positions
  int32_t mask_id = 0;
  bool cached = true;
  bool adapter_drafts = false; // causal passes do not use the model's adapters
};

enum class DraftPhase { first, draft, verify };

class SelfSpeculationSession final : public Session {
public:
  SelfSpeculationSession(const DraftSettings& settings, Request& request) : settings_(settings) {
    request.origin = request.prompt;
    request.block_length = std::max<int64_t>(request.length() - request.prompt, 1);
    known_ = first_not_known(request, 0);
    if (known_ == request.length()) request.finish = Finish::decided;
  }
  std::unique_ptr<Session> clone() const override {
    return std::make_unique<SelfSpeculationSession>(*this);
  }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    PassRequest pass;
    const bool drafts = phase_ == DraftPhase::draft;
    const int64_t kept = kept_end(cache);
    if (drafts && settings_.adapter_drafts && kept < known_ - 1) return refill(cache, kept);
    if (settings_.adapter_drafts && !drafts) pass.parts = model::PartList(); // the base alone
    pass.shift = drafts ? 0 : 1;
    pass.end = phase_ == DraftPhase::first ? std::max<int64_t>(known_, 1) : window_end(request);
    pass.span_end = pass.end;
    if (drafts) pass.together = known_ - 1;
    pass.positions = wanted(request, pass.end);
    if (!settings_.cached) return pass;
    pass.cached = true;
    pass.generation = cache.generation;
    // In a draft the last known token sees masks, so it is not final.
    pass.final_end = drafts ? known_ - 1 : known_;
    pass.begin = std::min({kept, std::max<int64_t>(known_ - 1, 0), pass.end - 1});
    return pass;
  }

  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override {
    if (pass.kind == PassKind::prefill) {
      verified_end_ = pass.final_end;
      verified_generation_ = pass.generation;
      return {};
    }
    std::vector<int64_t> decided;
    switch (phase_) {
    case DraftPhase::first:
      request.decide(known_, predictions[0].token, predictions[0].probability);
      decided = {known_};
      break;
    case DraftPhase::draft: decided = draft(request, predictions); break;
    case DraftPhase::verify:
      decided = verify(request, pass, predictions);
      verified_end_ = std::min(first_not_known(request, known_) - 1, pass.end);
      verified_generation_ = pass.generation;
      break;
    }
    return finish_phase(request, std::move(decided));
  }

  Outcome host_decided(Request& request, const std::vector<int64_t>& decided) override {
    return finish_phase(request, decided);
  }

private:
  static bool is_known(State state) { return state == State::final || state == State::fixed; }
  static int64_t first_not_known(const Request& request, int64_t from) {
    while (from < request.length() && is_known(request.states[static_cast<size_t>(from)])) ++from;
    return from;
  }
  // Returns the end of the K and V that causal passes wrote. They are the K and V of final
  // positions, then of the drafts that the last causal pass confirmed.
  int64_t kept_end(const CacheView& cache) const {
    const bool same = verified_end_ > 0 && verified_generation_ == cache.generation;
    return std::max(cache.final_end, same ? verified_end_ : 0);
  }
  // Returns a pass that writes K and V of the known tokens again, without the adapter. It is needed
  // after the contents of the cache were lost.
  PassRequest refill(const CacheView& cache, int64_t from) const {
    PassRequest pass;
    pass.kind = PassKind::prefill;
    pass.parts = model::PartList(); // the base alone
    pass.cached = true;
    pass.generation = cache.generation;
    pass.begin = from;
    pass.end = pass.span_end = pass.final_end = known_ - 1;
    return pass;
  }
  static std::span<const Prediction> first_of(std::span<const Prediction> predictions) {
    return predictions.first(std::min<size_t>(predictions.size(), 1));
  }
  // Returns the end of the window. It holds the last known token and the drafts after it.
  int64_t window_end(const Request& request) const {
    return std::min(known_ - 1 + settings_.block_length, request.length());
  }

  std::vector<int64_t> wanted(const Request& request, int64_t end) const {
    if (phase_ == DraftPhase::first) return {known_};
    if (phase_ == DraftPhase::draft) return request.open_positions(known_, end);
    std::vector<int64_t> positions;
    for (int64_t i = known_; i <= end && i < request.length(); ++i) {
      if (!is_known(request.states[static_cast<size_t>(i)])) positions.push_back(i);
    }
    return positions;
  }

  // Writes the drafts that are sure enough, and at least the surest one. Threshold 0: all.
  std::vector<int64_t> draft(Request& request, std::span<const Prediction> predictions) const {
    const Eligible all = eligible(predictions, settings_.mask_id);
    const std::vector<double> scores = confidences(all.candidates);
    std::vector<int64_t> decided;
    for (const size_t i : largest(scores, static_cast<int64_t>(scores.size()))) {
      if (!decided.empty() && scores[i] < settings_.threshold) break;
      const Prediction& p = *all.candidates[i];
      request.decide(p.position, p.token, p.probability, State::provisional);
      decided.push_back(p.position);
    }
    return decided;
  }

  // Keeps the drafts before the first one that the causal pass contradicts, and writes the token of
  // the causal pass at that position. Later drafts are opened again.
  std::vector<int64_t> verify(Request& request, const PassRequest& pass,
                              std::span<const Prediction> predictions) const {
    eligible(first_of(predictions), settings_.mask_id);
    std::vector<int64_t> decided;
    bool agrees = true;
    for (const Prediction& p : predictions) {
      const auto at = static_cast<size_t>(p.position);
      const bool drafted = request.states[at] == State::provisional;
      if (agrees && p.token != settings_.mask_id) {
        agrees = drafted && request.ids[at] == p.token && p.position < pass.end;
        if (!drafted) decided.push_back(p.position);
        request.decide(p.position, p.token, p.probability);
      } else if (drafted) {
        agrees = false;
        request.reopen(p.position, settings_.mask_id);
      }
    }
    return decided;
  }

  // Ends a pass. Drafting goes on while the block has open positions.
  Outcome finish_phase(Request& request, std::vector<int64_t> decided) {
    ++request.step_in_block;
    const int64_t end = phase_ == DraftPhase::first ? known_ : window_end(request);
    const bool drafted = phase_ == DraftPhase::draft && request.open_count(known_, end) == 0;
    known_ = first_not_known(request, known_);
    phase_ = drafted ? DraftPhase::verify : DraftPhase::draft;
    const bool done = known_ == request.length();
    if (done) request.finish = Finish::decided;
    std::sort(decided.begin(), decided.end());
    return {std::move(decided), request.block, request.block_begin(), request.block_end(), done};
  }

  DraftSettings settings_;
  DraftPhase phase_ = DraftPhase::first;
  int64_t known_ = 0; // number of tokens at the front that will not change
  int64_t verified_end_ = 0;
  uint64_t verified_generation_ = 0;
};

class SelfSpeculationPolicy final : public Policy {
public:
  explicit SelfSpeculationPolicy(const PolicySetup& setup) : Policy(setup) {
    if (setup.options.str("attention") != "auto")
      fail_with_hint("leave it at auto", Code::invalid_argument,
                     "policy self_speculation sets attention itself, not {}",
                     setup.options.str("attention"));
    if (setup.f64("guidance") > 0)
      fail_with_hint("set guidance to 0", Code::invalid_argument,
                     "policy self_speculation has no guidance");
    settings_.block_length = block_length_of(setup);
    settings_.threshold = as_f32(setup.f64("threshold"));
    settings_.mask_id = setup.mask_id;
    settings_.cached = cache_mode(setup.options.str("cache"), kCausal) != CacheMode::none;
    settings_.adapter_drafts = setup.options.str("adapter") == "drafts";
    if (settings_.adapter_drafts && !settings_.cached)
      fail_with_hint("leave option cache at auto", Code::invalid_argument,
                     "adapter = drafts needs the cache: the keys and values that drafts read are "
                     "computed without the adapter");
    if (settings_.adapter_drafts && model::has_saved(model::state_stacks(setup.config)))
      fail_with_hint("use adapter = all", Code::unimplemented,
                     "adapter = drafts of a model with recurrent layers is not supported");
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = kCausal;
    return std::make_unique<SelfSpeculationSession>(settings_, request);
  }

private:
  static constexpr AttentionSpan kCausal{1, 0, false};
  DraftSettings settings_;
};

std::unique_ptr<Policy> make_self_speculation(const PolicySetup& setup) {
  return std::make_unique<SelfSpeculationPolicy>(setup);
}

std::vector<OptionSpec> self_speculation_keys() {
  return {
      option_i64("block_length", 32, 2, 1 << 24,
                 "Positions of a draft with the last known token; not set: the model's own."),
      option_f64("threshold", 0, 0, 1,
                 "Above 0 drafting takes several passes: each keeps the tokens that are at least "
                 "this probable, and the most confident one."),
      option_choice(
          "adapter", "all", {"all", "drafts"},
          "Passes that use the adapter of the model, where it has one: all, or drafts only."),
  };
}

} // namespace

PolicyKind policy_files::self_speculation() {
  return {"self_speculation", make_self_speculation, self_speculation_keys()};
}

} // namespace dllm::decode
