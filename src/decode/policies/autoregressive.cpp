// Next-token decoding: positions from left to right, each seeing those before it. One new row of K
// and V a step; a prompt is computed once.

#include "base/error.h"
#include "decode/policies/table.h"
#include "decode/request/blockwise.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class AutoregressiveSession final : public Session {
public:
  AutoregressiveSession(bool cached, int shift, Slot& slot) : cached_(cached), shift_(shift) {
    slot.origin = slot.prompt;
    slot.block_length = 1;
    move(slot);
  }

  Ask ask(const Slot& slot, const CacheView& cache) const override {
    const int64_t next = slot.block_begin();
    Ask ask;
    ask.positions = {next};
    // The row that predicts it is the last of the window; under shift 0 its own, which holds the
    // mask token.
    ask.end = std::max<int64_t>(next + 1 - shift_, 1);
    if (!cached_) return ask;
    ask.cached = true;
    ask.generation = cache.generation;
    ask.final_end = next;
    ask.begin = std::min(cache.final_end, ask.end - 1);
    return ask;
  }

  Outcome apply(Slot& slot, const Ask&, std::span<const Prediction> predictions) override {
    slot.decide(predictions[0].position, predictions[0].token, predictions[0].probability);
    return settle(slot, {predictions[0].position});
  }

  Outcome settle(Slot& slot, const std::vector<int64_t>& decided) override {
    Outcome outcome{decided, slot.block, slot.block_begin(), slot.block_end(), !decided.empty()};
    move(slot);
    return outcome;
  }

private:
  // To the first open position; none is left: done.
  static void move(Slot& slot) {
    while (slot.block < slot.block_count() && !slot.is_open(slot.block_begin())) ++slot.block;
    if (slot.block >= slot.block_count()) slot.finish = Finish::decided;
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

  std::unique_ptr<Session> begin(Slot& slot) const override {
    slot.span = kCausal;
    return std::make_unique<AutoregressiveSession>(cached_, setup().shift, slot);
  }

  // The hidden state before a position predicts it; its own would show the mask.
  bool needs_mask() const override { return setup().shift == 0; }

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
