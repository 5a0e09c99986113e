// Policy gradients of answers that a diffusion model sampled (diffu-GRPO; Zhao et al. 2025, d1,
// arXiv 2504.12216). One pass over the row gives the probability of every token. In this pass the
// whole answer is masked, and each prompt token with probability mask_prompt: log p_i = log
// softmax(logits)[x_i]. With A the advantage of a row and r_i = p_i / p_i of the sampling model:
//   loss = mean over answer tokens of
//          -min(r_i A, clip(r_i, 1 - clip_low, 1 + clip_high) A) + kl_weight k_i,
//   k_i = q - log q - 1 with q = (p_i of the reference model) / p_i
// (GRPO, Shao et al. 2024, equations 3 and 4). With guidance g the logits are u + (g + 1) (c - u),
// where u are the logits of the row whose prompt is masked too.
//
// Arrays of the batch: advantages f32(batch); old_log_probs f32(batch, seq), without which r = 1
// with the gradient of log p; reference_log_probs f32(batch, seq), needed where kl_weight is not 0.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/text_counts.h"

#include <algorithm>

namespace dllm::noise {
namespace {

constexpr const char *kAdvantages = "advantages", *kOld = "old_log_probs",
                     *kReference = "reference_log_probs";
constexpr const char* kUnconditional = "unconditional"; // i32(batch, seq), with guidance

class Grpo final : public MaskingObjective {
public:
  Grpo(ScheduleRef schedule, const Options& options)
      : MaskingObjective(std::move(schedule), options) {}
  const std::string& name() const override { return name_; }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;

protected:
  std::vector<std::string> prepared_arrays() const override {
    return guided() ? std::vector<std::string>{kUnconditional} : std::vector<std::string>{};
  }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  bool guided() const { return options_.f64("guidance") > 0; }
  void mask_row(const TokenRows& rows, int64_t row, int32_t mask, std::span<const float> draws,
                TokenCeArrays* made, Tensor* unconditional) const;

  std::string name_ = "grpo";
};

// `draws` (seq) are uniform numbers of the row.
void Grpo::mask_row(const TokenRows& rows, int64_t row, int32_t mask, std::span<const float> draws,
                    TokenCeArrays* made, Tensor* unconditional) const {
  const auto share = static_cast<float>(options_.f64("mask_prompt"));
  const bool per_answer = options_.str("loss_norm") == "sequence";
  const auto is_trained = [&](int64_t i) { return rows.trainable(row * rows.seq + i); };
  const TextCounts texts = text_counts(rows, row, is_trained);
  int64_t tokens = 0;
  for (int64_t i = 0; i < rows.seq; ++i) {
    const auto at = static_cast<size_t>(row * rows.seq + i);
    const bool trained = rows.trainable(static_cast<int64_t>(at));
    const bool padding = !rows.segments.empty() && rows.segments[at] == 0;
    if (trained) {
      made->targets.mutable_as<int32_t>()[at] = rows.ids[at];
      made->weights.mutable_as<float>()[at] =
          per_answer ? 1.0f / static_cast<float>(texts.tokens[static_cast<size_t>(i)]) : 1.0f;
      ++tokens;
    }
    if (trained || (!padding && draws[static_cast<size_t>(i)] < share))
      made->ids.mutable_as<int32_t>()[at] = mask;
    if (!padding) unconditional->mutable_as<int32_t>()[at] = mask;
  }
  made->normalizer.mutable_as<float>()[static_cast<size_t>(row)] =
      static_cast<float>(per_answer ? texts.trained : tokens);
  made->t.mutable_as<float>()[static_cast<size_t>(row)] = 1.0f;
}

Batch Grpo::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                         const PrepareContext& context) const {
  const int32_t mask = mask_id(context);
  const TokenRows rows = token_rows(batch, context.vocab, context.shift == 1);
  const int64_t first = batch.global_rows(rows.batch).first;
  std::vector<float> draws = mask_draws(rows.batch, rows.seq, first, seed, step);
  inject_draws(batch, "u_mask", draws);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  Tensor unconditional = made.ids.clone();
  const auto seq = static_cast<size_t>(rows.seq);
  for (int64_t b = 0; b < rows.batch; ++b)
    mask_row(rows, b, mask, std::span(draws).subspan(static_cast<size_t>(b) * seq, seq), &made,
             &unconditional);
  Batch prepared = made.added_to(batch);
  if (guided()) prepared.set(kUnconditional, unconditional);
  set_timesteps(prepared, made.t, context);
  return prepared;
}

// Returns the number of each head entry: of its row (advantages), or of its row and position.
Tensor of_entries(const Batch& prepared, const char* name, const Batch& feed, int shift) {
  const Shape rows = prepared.at("ids").shape();
  const Tensor values = prepared.at(name).to(DType::f32);
  const bool per_row = values.shape() == Shape{rows[0]};
  if (!per_row && values.shape() != rows) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {}", name, values.shape().text(),
         name == std::string_view(kAdvantages) ? Shape{rows[0]}.text() : rows.text());
  }
  check_finite(name, values);
  const auto entries = feed.at(kHeadRows).as<int32_t>();
  Tensor made(DType::f32, {static_cast<int64_t>(entries.size())});
  const auto count = static_cast<size_t>(feed.at(kHeadCount).as<int32_t>()[0]);
  for (size_t k = 0; k < count; ++k) {
    const int64_t at = entries[k] + shift; // position of the target
    made.mutable_as<float>()[k] =
        values.as<float>()[static_cast<size_t>(per_row ? at / rows[1] : at)];
  }
  return made;
}

Batch Grpo::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  Batch made = MaskingObjective::feed_rows(prepared, config);
  const int own_shift = shift(config);
  if (!prepared.has(kAdvantages)) {
    fail_with_hint("give each row the advantage of its answer", Code::not_found,
                   "objective grpo needs array {} (batch)", kAdvantages);
  }
  made.set(kAdvantages, of_entries(prepared, kAdvantages, made, own_shift));
  if (prepared.has(kOld)) made.set(kOld, of_entries(prepared, kOld, made, own_shift));
  if (options_.f64("kl_weight") > 0)
    made.set(kReference, of_entries(prepared, kReference, made, own_shift));
  if (guided()) {
    const Tensor ids = prepared.at(kUnconditional).to(DType::i32);
    check_between(kUnconditional, ids, 0, config.vocab_size - 1, "the vocabulary");
    made.set(kUnconditional, ids);
  }
  return made;
}

Loss Grpo::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  if (guided() && builder.config().logit_softcap > 0)
    fail_with_hint("set guidance to 0", Code::unimplemented,
                   "guidance of a model that caps its logits is not supported");
  if (builder.sequence_ranks() > 1)
    fail_with_hint("leave axis sequence out of the mesh", Code::unimplemented,
                   "objective grpo does not cut positions over ranks");
  graph::Graph& graph = builder.graph();
  const auto number = [&](double value) { return graph::scalar(graph, static_cast<float>(value)); };
  const auto chosen = [&](const model::ForwardInputs& tokens) {
    const graph::Value hidden = builder.forward(tokens).hidden;
    return graph::take(graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)}),
                       inputs.head_rows);
  };
  graph::Value rows = chosen(inputs.tokens); // (capacity, hidden)
  if (guided()) { // the head is affine: mixed hidden states give mixed logits
    model::ForwardInputs bare = inputs.tokens;
    bare.ids = inputs.all.at(kUnconditional);
    const graph::Value plain = chosen(bare);
    rows = graph::add(
        plain, graph::multiply(number(options_.f64("guidance") + 1), graph::subtract(rows, plain)));
  }
  const graph::Value log_prob = graph::negate(
      model::cross_entropy(builder.head(), rows, inputs.head_targets, inputs.head_count));
  const auto given = inputs.all.find(kOld);
  const graph::Value old =
      given == inputs.all.end() ? graph::stop_gradient(log_prob) : given->second;
  const graph::Value ratio = graph::exp(graph::subtract(log_prob, old));
  const graph::Value advantage = inputs.all.at(kAdvantages);
  const graph::Value low = graph::full(graph, ratio.shape(),
                                       static_cast<float>(1 - options_.f64("clip_low"))),
                     high = graph::full(graph, ratio.shape(),
                                        static_cast<float>(1 + options_.f64("clip_high")));
  const graph::Value gain =
      graph::minimum(graph::multiply(ratio, advantage),
                     graph::multiply(graph::clamp(low, ratio, high), advantage));
  graph::Value loss_of_token = graph::negate(gain);
  const graph::Value used = graph::convert(
      graph::greater(inputs.head_weights, graph::full(graph, gain.shape(), 0.0f)), DType::f32);
  const graph::Value count = graph::convert(inputs.head_count, DType::f32);
  Loss loss;
  const auto part = [&](const char* name, graph::Value x) {
    loss.parts.push_back(
        {name, graph::sum(graph::stop_gradient(graph::multiply(x, used)), {0}), count});
  };
  part("nll", graph::negate(log_prob));
  part("ratio", ratio);
  if (options_.f64("kl_weight") > 0) {
    const graph::Value apart = graph::subtract(inputs.all.at(kReference), log_prob);
    const graph::Value kl = graph::subtract(graph::subtract(graph::exp(apart), apart), number(1.0));
    loss_of_token =
        graph::add(loss_of_token, graph::multiply(number(options_.f64("kl_weight")), kl));
    part("kl", kl);
  }
  loss.sum = graph::sum(graph::multiply(loss_of_token, inputs.head_weights), {0});
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  return loss;
}

} // namespace

ObjectiveEntry objective_files::grpo() {
  std::vector<OptionSpec> keys = shared_objective_options();
  keys.push_back(option_f64("mask_prompt", 0.15, 0.0, 1.0,
                            "Probability that a prompt token is masked too, so that a row may be "
                            "used for several updates."));
  keys.push_back(option_f64("clip_low", 0.2, 0.0, 1.0,
                            "A token that is less probable than when it was sampled counts down "
                            "to the ratio 1 - this."));
  keys.push_back(option_f64(
      "clip_high", 0.2, 0.0, 1e6,
      "A token that is more probable than when it was sampled counts up to the ratio 1 + this."));
  keys.push_back(option_f64("kl_weight", 0.0, 0.0, 1e6,
                            "Weight of the distance from array reference_log_probs; 0: none."));
  keys.push_back(option_f64("guidance", 0.0, 0.0, 100.0,
                            "Classifier-free guidance of the probabilities, as the decoder that "
                            "sampled used; doubles the passes."));
  keys.push_back(option_choice("loss_norm", "token", {"token", "sequence"},
                               "What the summed loss is divided by: answer tokens, or the same per "
                               "text and texts."));
  return {"grpo", "linear", std::move(keys), new_objective<Grpo>, {.rows = RowKind::sampled}};
}

} // namespace dllm::noise
