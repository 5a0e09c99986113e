// The policy multi_block: its options and their allowed combinations. Its session is in
// multi_block_session.cpp.

#include "decode/policies/multi_block.h"
#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>

namespace dllm::decode {
namespace {

MultiBlockCompat multi_block_compat(const std::string& name) {
  if (name == "castlehill") return MultiBlockCompat::castlehill;
  if (name == "d3llm-llada") return MultiBlockCompat::d3llm_llada;
  return name == "d3llm-dream" ? MultiBlockCompat::d3llm_dream : MultiBlockCompat::none;
}

MultiBlockKeep multi_block_keep(const PolicySetup& setup) {
  const std::string& cache = setup.options.str("cache");
  const bool exact = setup.span.is_exact();
  if (cache == "auto") return exact ? MultiBlockKeep::exact : MultiBlockKeep::none;
  if (cache == "none") return MultiBlockKeep::none;
  if ((cache == "exact") == exact) return exact ? MultiBlockKeep::exact : MultiBlockKeep::delayed;
  if (exact)
    fail_with_hint("use cache exact", Code::invalid_argument,
                   "cache delayed approximates bidirectional attention; this attention allows an "
                   "exact one");
  fail_with_hint("use cache none or delayed (approximate), or a block_causal model",
                 Code::invalid_argument,
                 "cache exact needs causal or block_causal attention: under bidirectional "
                 "attention K and V of decided positions change with every later token");
}

class MultiBlock final : public Policy {
public:
  explicit MultiBlock(const PolicySetup& setup) : Policy(setup) {
    if (setup.f64("guidance") != 0) {
      fail_with_hint("set guidance to 0", Code::invalid_argument,
                     "policy multi_block has no second canvas for guidance {}",
                     setup.f64("guidance"));
    }
    if (setup.i64("eos") >= setup.config.vocab_size) {
      fail(Code::invalid_argument, "option eos is {}, expected a token id from 0 to {}",
           setup.i64("eos"), setup.config.vocab_size - 1);
    }
    settings_.pipeline.add = setup.f64("block_add");
    settings_.pipeline.activate = setup.f64("block_activate");
    settings_.compat = multi_block_compat(setup.options.str("compat"));
    // In the step that creates a block, dLLM-castlehill compares with a constant.
    settings_.pipeline.activate_new =
        settings_.compat == MultiBlockCompat::castlehill ? 0.5 : settings_.pipeline.activate;
    settings_.block_length = block_length_of(setup);
    settings_.cache_delay = setup.i64("cache_delay");
    settings_.cache_refresh = setup.i64("cache_refresh");
    settings_.entropy_threshold = static_cast<float>(setup.f64("entropy_threshold"));
    settings_.surest = setup.options.boolean("surest");
    settings_.eos = static_cast<int32_t>(setup.i64("eos"));
    settings_.mask_id = setup.mask_id;
    settings_.shift = setup.shift;
    settings_.keep = multi_block_keep(setup);
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    request.origin = request.prompt;
    request.block_length = settings_.block_length;
    request.span = setup().span;
    // Under block_causal attention the prompt is one block and the grid begins after it.
    if (request.span.block > 1) request.span = {settings_.block_length, request.origin, true};
    return make_multi_block_session(settings_, request);
  }
  PredictionNeeds needs() const override { return {.top = 2}; }

  std::string approximation() const override {
    if (settings_.keep != MultiBlockKeep::delayed) return "";
    return "cache delayed: K and V of a decided block come from a step soon after its end and are "
           "renewed by full passes; exact ones would change with every later token";
  }

private:
  MultiBlockSettings settings_{};
};

std::vector<OptionSpec> multi_block_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions of a block, the first begins after the prompt; not set: the model's "
                 "own, else 32."),
      option_i64("steps", 64, 1, 1 << 20, "Not used: the entropies determine the number of steps."),
      option_f64("entropy_threshold", 0.9, 0, 1e6,
                 "Positions are decided when the entropy of their distribution is below this "
                 "(nats, at temperature 1)."),
      option_f64("block_add", 0.5, 0, 1,
                 "A block begins when this share of the block before it is decided."),
      option_f64("block_activate", 0.5, 0, 1,
                 "The next block may lead when this share of a block is decided. The first block "
                 "that may lead and has open positions gets a token every step."),
      option_bool("surest", false,
                  "Also the position of lowest entropy of all begun blocks is decided in every "
                  "step (d3LLM on LLaDA)."),
      option_i64("eos", -1, -1, 1 << 30,
                 "Token id: positions after a decided token of this id become it; -1: none."),
      option_choice("cache", "auto", {"auto", "none", "exact", "delayed"},
                    "K and V that are kept between steps. exact: of decided blocks, causal and "
                    "block_causal attention only, the same tokens as none. delayed: also under "
                    "bidirectional attention, approximate. auto: exact where it is possible."),
      option_i64("cache_delay", 1, 0, 1 << 20,
                 "Steps that a decided block is still computed in before cache delayed keeps it."),
      option_i64("cache_refresh", 8, 0, 1 << 20,
                 "Number of steps after which cache delayed computes everything; 0: only while a "
                 "decided block waits."),
      option_choice("compat", "none", {"none", "castlehill", "d3llm-llada", "d3llm-dream"},
                    "castlehill: in the step that begins a block block_activate counts as 0.5; "
                    "d3llm-*: positions that eos filled compete once more in the next step; "
                    "d3llm-llada: moreover cache_delay of a block counts from the end of the one "
                    "before; all of them: the last step leaves the positions after eos."),
  };
}

std::unique_ptr<Policy> make_multi_block(const PolicySetup& setup) {
  return std::make_unique<MultiBlock>(setup);
}

} // namespace

PolicyKind policy_files::multi_block() {
  return {"multi_block", make_multi_block, multi_block_keys()};
}

} // namespace dllm::decode
