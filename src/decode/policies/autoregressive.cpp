// Next-token decoding. Positions are decided from left to right, and each sees the positions before
// it. A step adds one row of K and V, and a prompt is computed once.

#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class AutoregressiveSession final : public Session {
public:
  AutoregressiveSession(bool cached, int shift, Request& request) : cached_(cached), shift_(shift) {
    request.origin = request.prompt;
    request.block_length = 1;
    move(request);
  }
  std::unique_ptr<Session> clone() const override {
    return std::make_unique<AutoregressiveSession>(*this);
  }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    const int64_t next = request.block_begin();
    PassRequest pass;
    pass.positions = {next};
    // The last row of the window predicts the position. Under shift 0 that is the row of the
    // position itself, which holds the mask token.
    pass.end = std::max<int64_t>(next + 1 - shift_, 1);
    if (!cached_) return pass;
    pass.cached = true;
    pass.generation = cache.generation;
    pass.final_end = next;
    pass.begin = std::min(cache.final_end, pass.end - 1);
    return pass;
  }

  Outcome apply(Request& request, const PassRequest&,
                std::span<const Prediction> predictions) override {
    request.decide(predictions[0].position, predictions[0].token, predictions[0].probability);
    return host_decided(request, {predictions[0].position});
  }

  Outcome host_decided(Request& request, const std::vector<int64_t>& decided) override {
    Outcome outcome{decided, request.block, request.block_begin(), request.block_end(),
                    !decided.empty()};
    move(request);
    return outcome;
  }

private:
  // Moves to the first open position. A request without one is done.
  static void move(Request& request) {
    while (request.block < request.block_count() && !request.is_open(request.block_begin()))
      ++request.block;
    if (request.block >= request.block_count()) request.finish = Finish::decided;
  }

  bool cached_;
  int shift_;
};

class AutoregressivePolicy final : public Policy {
public:
  explicit AutoregressivePolicy(const PolicySetup& setup)
      : Policy(setup), cached_(cache_mode(setup.options.str("cache"), kCausal) != CacheMode::none) {
    const std::string attention = setup.options.str("attention");
    if (attention != "auto" && attention != "causal") {
      fail_with_hint("use low_confidence with block_length 1", Code::invalid_argument,
                     "policy autoregressive decodes with causal attention, not {}", attention);
    }
    if (setup.f64("guidance") > 0) {
      fail_with_hint("use low_confidence with attention causal and block_length 1",
                     Code::invalid_argument, "policy autoregressive has no guidance");
    }
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = kCausal;
    return std::make_unique<AutoregressiveSession>(cached_, setup().shift, request);
  }

  // Under shift 0 the position holds the mask token. Under shift 1 the position before predicts it.
  PredictionNeeds needs() const override { return {.mask = setup().shift == 0}; }

private:
  static constexpr AttentionSpan kCausal{1, 0, false};
  bool cached_;
};

std::unique_ptr<Policy> make_autoregressive(const PolicySetup& setup) {
  return std::make_unique<AutoregressivePolicy>(setup);
}

std::vector<OptionSpec> autoregressive_keys() {
  return {option_i64("shift", 1, -1, 1,
                     "1: the hidden state before a token predicts it, as causal language models "
                     "are trained; -1: the model's own.")};
}

} // namespace

PolicyKind policy_files::autoregressive() {
  return {"autoregressive", make_autoregressive, autoregressive_keys()};
}

} // namespace dllm::decode
