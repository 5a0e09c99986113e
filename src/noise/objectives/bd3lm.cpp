// Block diffusion (Arriola et al. 2025, BD3-LM): blocks in order, and masked diffusion inside of a
// block, given the clean blocks before it. A row is [noised | clean]. A noised token sees its own
// noised block and the clean blocks before it, so one pass computes every block as if it ran alone.
// Each block has its own time:
//   loss = 1 / tokens * sum over blocks of -alpha'(t_b) / (1 - alpha(t_b))
//          * sum over masked i of CE_i.
// With ar_weight the clean half is causal and predicts its next tokens in the same pass
// (Nemotron-Labs-Diffusion). A held-out loss leaves this term out:
//   loss += ar_weight / tokens * sum over i of -log p(x_i | x_<i).
// With complementary every row comes a second time with the other tokens masked (Fast-dLLM v2,
// noise/rows/complement.h).

#include "base/error.h"
#include "noise/objectives/masked.h"
#include "noise/rows/complement.h"
#include "noise/rows/two_stream.h"

namespace dllm::noise {
namespace {

class Bd3lm final : public MaskedDiffusion {
public:
  Bd3lm(ScheduleRef schedule, const Options& options)
      : MaskedDiffusion("bd3lm", std::move(schedule), options), blocks_(options_) {
    const bool plain = options_.str("loss_weight") == "ones" &&
                       options_.str("loss_norm") != "sequence" && options_.str("compat") == "none";
    if (options_.boolean("complementary") && !plain) {
      fail_with_hint("set loss_weight = ones, loss_norm = token, masked or batch, compat = none",
                     Code::invalid_argument,
                     "complementary masks weigh all tokens alike: loss_weight is {}, loss_norm {}, "
                     "compat {}",
                     options_.str("loss_weight"), options_.str("loss_norm"),
                     options_.str("compat"));
    }
  }

  bool bounds_likelihood() const override { return is_nelbo(); }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override {
    const PrepareContext own = blocks_.at(step, context);
    Batch made = MaskedDiffusion::prepare_rows(batch, seed, step, own);
    const double weight = options_.f64("ar_weight");
    if (weight > 0) add_next_tokens(made, batch, context.held_out ? 0 : weight, context.shift);
    if (options_.boolean("complementary") && !context.held_out) {
      add_complements(made, token_rows(batch, context.vocab, context.shift == 1), mask_id(context),
                      options_.str("loss_norm") == "masked");
    }
    blocks_.note(made, own);
    return made;
  }

  model::AttentionKind attention(const model::ModelConfig&) const override {
    return model::AttentionKind::two_stream;
  }

protected:
  // Rows of two streams have their own attention mask.
  std::vector<std::string> raw_arrays() const override { return {"positions", "keys", "t"}; }
  int64_t tokens_per_time(int64_t seq, const PrepareContext& context) const override {
    const bool per_row = reference() || options_.str("time_per") == "row";
    return per_row ? seq : needed_block_length(*this, context);
  }

  Batch finished(const TokenCeArrays& made, const Batch& source) const override {
    return two_streams(made, source, options_.str("compat") == "none");
  }

private:
  BlockSteps blocks_;
};

} // namespace

ObjectiveEntry objective_files::bd3lm() {
  std::vector<OptionSpec> keys = masked_options();
  option_of(keys, "attention") = option_choice(
      "attention", "auto", {"auto"}, "Always [noised | clean]: the model decodes block_causal.");
  keys.push_back(option_choice("time_per", "block", {"block", "row"},
                               "What has its own time: each block, or the whole row."));
  keys.push_back(BlockSteps::option());
  keys.push_back(option_f64("ar_weight", 0.0, 0.0, 1e3,
                            "Weight of the loss of next tokens of the clean half, which is causal "
                            "then (Nemotron-Labs-Diffusion); 0: no such loss."));
  keys.push_back(option_bool("complementary", false,
                             "Every row is used twice, once with its mask and once with the other "
                             "tokens masked (Fast-dLLM v2); needs loss_weight = ones."));
  return {"bd3lm",
          "linear",
          std::move(keys),
          new_objective<Bd3lm>,
          {.rows = RowKind::two_streams,
           .policy = "bd3lm",
           .sample = R"({"policy": "bd3lm", "steps": 16})",
           .likelihood = true}};
}

} // namespace dllm::noise
