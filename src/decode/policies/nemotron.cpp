// Nemotron-Labs-Diffusion (NVIDIA 2026). The first token of a block is the next token of a causal
// pass over everything before the block. This pass also writes the K and V that later blocks read.
// The rest of a block is denoised, and all positions of the block see each other. Without
// causal_context the first token is denoised with the others. The positions of a decided block then
// see each other when their K and V are stored.

#include "base/error.h"
#include "decode/policies/policies.h"

#include <algorithm>

namespace dllm::decode {
namespace {

struct NemotronSettings {
  int64_t block_length = 32;
  double threshold = 0.9; // 1: one token per step
  int32_t mask_id = 0;
  bool cached = true;
  bool causal_context = true;

  AttentionSpan span(int64_t prompt) const {
    if (causal_context) return {1, 0};
    return {.block = block_length, .origin = prompt, .whole_prompt = true};
  }
};

class NemotronSession final : public Session {
public:
  NemotronSession(const NemotronSettings& settings, Request& request) : settings_(settings) {
    request.origin = request.prompt;
    request.block_length = settings_.block_length;
    move(request);
  }
  std::unique_ptr<Session> clone() const override {
    return std::make_unique<NemotronSession>(*this);
  }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    const int64_t begin = request.block_begin();
    const bool first = settings_.causal_context && request.is_open(begin);
    PassRequest pass;
    // The last row of the window predicts the first token. Position 0 is predicted by its own row.
    pass.end = first ? std::max<int64_t>(begin, 1) : request.block_end();
    pass.positions = first ? std::vector<int64_t>{begin} : request.open_positions(begin, pass.end);
    pass.shift = first ? 1 : 0;
    pass.together = first ? -1 : begin;
    pass.span_end = pass.end;
    if (!settings_.cached) return pass;
    pass.cached = true;
    pass.generation = cache.generation;
    pass.final_end = begin;
    pass.begin = std::min({cache.final_end, begin, pass.end - 1});
    return pass;
  }

  Outcome apply(Request& request, const PassRequest&,
                std::span<const Prediction> predictions) override {
    const Eligible all = eligible(predictions, settings_.mask_id);
    std::vector<int64_t> decided;
    const std::vector<double> scores = confidences(all.candidates);
    for (const size_t i : largest(scores, static_cast<int64_t>(scores.size()))) {
      const bool sure = settings_.threshold < 1 && scores[i] >= settings_.threshold;
      if (!decided.empty() && !sure) break;
      const Prediction& p = *all.candidates[i];
      request.decide(p.position, p.token, p.probability);
      decided.push_back(p.position);
    }
    std::sort(decided.begin(), decided.end());
    return host_decided(request, decided);
  }

  Outcome host_decided(Request& request, const std::vector<int64_t>& decided) override {
    Outcome outcome{decided, request.block, request.block_begin(), request.block_end(), false};
    ++request.step_in_block;
    outcome.block_ended = request.open_count(outcome.begin, outcome.end) == 0;
    if (outcome.block_ended) move(request);
    return outcome;
  }

private:
  // Moves to the first block with open positions. A request without one is done.
  static void move(Request& request) {
    while (request.block < request.block_count() &&
           request.open_count(request.block_begin(), request.block_end()) == 0)
      ++request.block;
    request.step_in_block = 0;
    if (request.block >= request.block_count()) request.finish = Finish::decided;
  }

  NemotronSettings settings_;
};

class NemotronPolicy final : public Policy {
public:
  explicit NemotronPolicy(const PolicySetup& setup) : Policy(setup) {
    if (setup.options.str("attention") != "auto")
      fail_with_hint("leave it at auto", Code::invalid_argument,
                     "policy nemotron sets attention itself, not {}",
                     setup.options.str("attention"));
    if (setup.f64("guidance") > 0)
      fail_with_hint("set guidance to 0", Code::invalid_argument,
                     "policy nemotron has no guidance");
    settings_.block_length = block_length_of(setup);
    settings_.threshold = as_f32(setup.f64("threshold"));
    settings_.mask_id = setup.mask_id;
    settings_.causal_context = setup.options.boolean("causal_context");
    settings_.cached = cache_mode(setup.options.str("cache"), settings_.span(0)) != CacheMode::none;
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = settings_.span(request.prompt);
    return std::make_unique<NemotronSession>(settings_, request);
  }

private:
  NemotronSettings settings_;
};

std::unique_ptr<Policy> make_nemotron(const PolicySetup& setup) {
  return std::make_unique<NemotronPolicy>(setup);
}

std::vector<OptionSpec> nemotron_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions of a block, counted from the prompt's end; not set: the model's own."),
      option_f64("threshold", 0.9, 0, 1,
                 "Positions at least this probable are decided, and at least the most confident "
                 "one; 1: only the most confident one."),
      option_bool("causal_context", true,
                  "true: decided tokens of a block see only earlier tokens, and the first token of "
                  "a block is their next token. false: they see each other, as tokens of the "
                  "prompt do, and all of them are denoised."),
  };
}

} // namespace

PolicyKind policy_files::nemotron() {
  return {"nemotron", make_nemotron, nemotron_keys()};
}

} // namespace dllm::decode
