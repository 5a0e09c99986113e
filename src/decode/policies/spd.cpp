// The policy spd: its options and their allowed combinations, and the graph form of its rule. Its
// session is in spd_session.cpp.

#include "decode/policies/spd.h"

#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>

namespace dllm::decode {
namespace {

using graph::Value;

class SpdLoop final : public LoopRule {
public:
  explicit SpdLoop(const SpdSettings& settings) : settings_(settings) {}
  int32_t reopening() const override { return settings_.mask_id; }
  Value wanted(const LoopContext& moment) const override { return moment.eligible; }

  LoopChoice choose(const LoopContext& moment, const PredictionValues& predicted) const override {
    graph::Graph& graph = moment.graph;
    const Value decided = without(moment.eligible, moment.open);
    LoopChoice choice;
    choice.decided = graph::logical_or(decided, leading(moment, predicted));
    // The block ends if no token changed, if all predictions are sure, or with its last step.
    const Value changed =
        graph::logical_and(choice.decided, graph::not_equal(predicted.token, moment.ids));
    const Value sure = graph::greater_equal(predicted.max_probability,
                                            graph::scalar(graph, settings_.confidence_stop));
    const Value ended =
        graph::logical_or(graph::logical_not(any_of(changed)),
                          graph::logical_not(any_of(without(moment.eligible, sure))));
    choice.ended =
        graph::logical_or(ended, graph::less_equal(moment.count, graph::scalar_i32(graph, 1)));
    const Shape one{moment.rows(), moment.block(), 1};
    // dllm-jax mixes the drawn token with the probability of the likeliest token.
    const bool drawn = settings_.is_jax() && settings_.mix_top_k == 1;
    choice.soft_ids = drawn ? graph::reshape(predicted.token, one) : predicted.top_ids;
    choice.soft_weights =
        drawn ? graph::reshape(predicted.max_probability, one) : predicted.top_probs;
    return choice;
  }

private:
  // Returns the masks before the first one below the threshold, and the leftmost mask.
  Value leading(const LoopContext& moment, const PredictionValues& predicted) const {
    graph::Graph& graph = moment.graph;
    const auto upto = [](Value flags) { // number of set flags up to and including each position
      return graph::cumsum(graph::convert(flags, DType::i32), 1);
    };
    const Value low = graph::less(predicted.probability, graph::scalar(graph, settings_.threshold));
    const Value fails = graph::logical_and(moment.open, low);
    const Value before = graph::equal(upto(fails), graph::scalar_i32(graph, 0));
    const Value leftmost = graph::equal(upto(moment.open), graph::scalar_i32(graph, 1));
    return graph::logical_and(moment.open, graph::logical_or(before, leftmost));
  }

  SpdSettings settings_;
};

LoopOffer spd_loop(const SpdSettings& settings) {
  if (settings.implementation == SpdImplementation::reference)
    return {nullptr, "implementation reference runs every step by the host"};
  return {std::make_unique<SpdLoop>(settings), ""};
}

SpdImplementation spd_implementation(const std::string& name) {
  if (name == "reference") return SpdImplementation::reference;
  return name == "fast" ? SpdImplementation::fast : SpdImplementation::kv_fast;
}

SpdCompat spd_compat(const std::string& name) {
  if (name == "dllm-jax") return SpdCompat::dllm_jax;
  if (name == "dllm-jax-batch") return SpdCompat::dllm_jax_batch;
  return name == "dmax" ? SpdCompat::dmax : SpdCompat::none;
}

void refuse_what_does_not_fit(const PolicySetup& setup) {
  const Options& options = setup.options;
  const std::string& attention = options.str("attention");
  if (attention == "causal" || attention == "bidirectional") {
    fail_with_hint("leave attention at auto, or use policy low_confidence", Code::invalid_argument,
                   "policy spd decodes under block_causal attention, not {}", attention);
  }
  const std::string &cache = options.str("cache"), &implementation = options.str("implementation");
  const bool kv = implementation == "kv_fast";
  if (cache != "auto" && cache != (kv ? "exact" : "none")) {
    fail_with_hint("leave cache at auto; implementation reference and fast keep none, kv_fast an "
                   "exact one",
                   Code::invalid_argument, "cache {} does not work with implementation {}", cache,
                   implementation);
  }
  if (setup.f64("guidance") != 0) {
    fail_with_hint("set guidance to 0", Code::invalid_argument,
                   "policy spd has no second canvas for guidance {}", setup.f64("guidance"));
  }
  if (setup.i64("bucket_length") > 0 && implementation != "fast") {
    fail_with_hint("use implementation fast, or bucket_length 0", Code::invalid_argument,
                   "bucket_length {} is an option of implementation fast, not of {}",
                   setup.i64("bucket_length"), implementation);
  }
  if (setup.i64("eos") >= setup.config.vocab_size) {
    fail(Code::invalid_argument, "option eos is {}, expected a token id from 0 to {}",
         setup.i64("eos"), setup.config.vocab_size - 1);
  }
}

class Spd final : public Policy {
public:
  explicit Spd(const PolicySetup& setup) : Policy(setup) {
    refuse_what_does_not_fit(setup);
    settings_.block_length = block_length_of(setup);
    settings_.steps = setup.i64("steps");
    settings_.minimal_topk = setup.i64("minimal_topk");
    settings_.mix_top_k = std::min(setup.i64("mix_top_k"), setup.config.vocab_size);
    settings_.bucket_length = setup.i64("bucket_length");
    settings_.threshold = static_cast<float>(setup.f64("threshold"));
    settings_.confidence_stop = static_cast<float>(setup.f64("confidence_stop"));
    settings_.eos = static_cast<int32_t>(setup.i64("eos"));
    settings_.mask_id = setup.mask_id;
    settings_.eos_fill = setup.options.boolean("eos_fill");
    settings_.shift = setup.shift;
    settings_.implementation = spd_implementation(setup.options.str("implementation"));
    settings_.compat = spd_compat(setup.options.str("compat"));
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = {settings_.block_length, 0, false};
    return make_spd_session(settings_, request);
  }
  LoopOffer loop() const override { return spd_loop(settings_); }
  PredictionNeeds needs() const override {
    return {.top = settings_.mix_top_k,
            .soft_width = settings_.mix_top_k,
            .bf16_embeddings = setup().options.str("embeddings") == "bf16"};
  }

private:
  SpdSettings settings_{};
};

std::vector<OptionSpec> spd_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions of a block, counted from position 0, prompt included; not set: the "
                 "model's own, else 32."),
      option_i64("steps", 32, 1, 1 << 20,
                 "Most steps of a block, at most its positions; positions that are open after them "
                 "stay open."),
      option_i64("minimal_topk", 1, 1, 1 << 20,
                 "Caps the steps of a block at the open positions divided by this."),
      option_f64("threshold", 0.95, 0, 1,
                 "Masks are decided from the left while the probability is at least this; the "
                 "leftmost always."),
      option_f64("confidence_stop", 0.9, 0, 2,
                 "A block ends when every position of it is at least this probable, also with "
                 "masks left; above 1: never."),
      option_i64("mix_top_k", 1, 1, 1024,
                 "Likeliest tokens that are mixed into the input of a decided position; top_k, in "
                 "contrast, limits draws."),
      option_choice(
          "embeddings", "f32", {"f32", "bf16"},
          "bf16: embeddings and their mixtures are rounded to bf16, as dllm-jax does by default."),
      option_bool("suppress_mask", false, "The mask token is never drawn."),
      option_i64("eos", -1, -1, 1 << 30,
                 "A block that decides this token id ends the request; -1: none."),
      option_bool("eos_fill", true, "Positions after a block with eos become eos."),
      option_choice("implementation", "kv_fast", {"reference", "fast", "kv_fast"},
                    "The same tokens at other costs. reference: a pass sees up to its block; fast: "
                    "passes of one shape; kv_fast: a pass is one block, the rest is cached."),
      option_i64(
          "bucket_length", 0, 0, 1 << 24,
          "Number of positions by which windows of implementation fast grow; 0: one window."),
      option_choice(
          "compat", "none", {"none", "dllm-jax", "dllm-jax-batch", "dmax"},
          "dllm-jax: also an eos in the given part of a block ends the request, and a drawn token "
          "is mixed with the likeliest one's probability; dllm-jax-batch: moreover positions that "
          "eos filled are revised again and the host ends the request; dmax: nfe is 1 + steps."),
  };
}

std::unique_ptr<Policy> make_spd(const PolicySetup& setup) {
  return std::make_unique<Spd>(setup);
}

} // namespace

PolicyKind policy_files::spd() {
  return {"spd", make_spd, spd_keys()};
}

} // namespace dllm::decode
