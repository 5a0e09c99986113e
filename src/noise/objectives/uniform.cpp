// Diffusion with uniform noise (Schiff et al. 2024, UDLM; Sahoo et al. 2025, Duo): with probability 1 - alpha(t) a token
// becomes any of the vocabulary, so an id does not show whether it is noise, and every position is predicted and may change
// again. The loss is the continuous-time bound (noise/uniform_nelbo.h), in nats per trainable token. The mask token, where
// a model has one, is neither noise nor prediction. The decoding policy of the same name samples it.

#include "base/error.h"
#include "noise/objectives/table.h"
#include "noise/times.h"
#include "noise/token_ce.h"
#include "noise/uniform_nelbo.h"

#include <algorithm>

namespace dllm::noise {
namespace {

// Tokens that may be noise: all but one (-1: all).
struct NoiseTokens {
  int64_t vocab, left_out;
  int64_t count() const { return vocab - (left_out >= 0 ? 1 : 0); }
  int32_t at(int64_t index) const {
    return static_cast<int32_t>(left_out >= 0 && index >= left_out ? index + 1 : index);
  }
};

NoiseTokens noise_tokens(int64_t vocab, int64_t mask_id) {
  const NoiseTokens made{vocab, mask_id >= 0 && mask_id < vocab ? mask_id : -1};
  if (made.count() >= 2) return made;
  fail_with_hint("give prepare the model", Code::failed_precondition,
                 "objective uniform needs a vocabulary of 2 tokens or more, not {}", made.count());
}

constexpr const char* kNoisy = "uniform_noisy"; // i32(capacity): the noised token of an entry
constexpr const char* kTerms = "uniform_terms"; // f32(capacity, 6): UniformTerms

class Uniform final : public Objective {
public:
  Uniform(ScheduleRef schedule, const Options& options)
      : Objective(std::move(schedule), options), times_(options_) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  bool spreads_over_rows() const override { return times_.spreads(); }
  model::AttentionKind attention(const model::ModelConfig& config) const override {
    return options_.str("attention") == "auto" ? model::AttentionKind::bidirectional
                                               : Objective::attention(config);
  }
  Batch prepare(const Batch& batch, uint64_t seed, int64_t step,
                const PrepareContext& context) const override;
  // Of prepared rows whose targets, weights and t are given too: the noised tokens are the ids.
  bool is_prepared(const Batch& batch) const override {
    return Objective::is_prepared(batch) && batch.has("t");
  }
  Batch feed(const Batch& prepared, const model::ModelConfig& config) const override;

protected:
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  // Inside of (0, 1): the bound divides by both ends.
  double alpha(double t) const { return std::clamp(schedule_->alpha(t), 1e-6, 1.0 - 1e-6); }
  int64_t left_out(const model::ModelConfig& config) const {
    const int64_t chosen = options_.i64("mask_id");
    return chosen >= 0 ? chosen : config.mask_token_id;
  }

  std::string name_ = "uniform";
  TimeSampler times_;
};

Batch Uniform::prepare(const Batch& batch, uint64_t seed, int64_t step,
                       const PrepareContext& context) const {
  const TokenRows rows = token_rows(batch, context.vocab);
  const NoiseTokens tokens = noise_tokens(context.vocab, context.mask_id);
  const std::pair<int64_t, int64_t> global = batch.global_rows(rows.batch);
  std::vector<float> draws = times_.draws(rows.batch, 1, global, seed, step);
  inject_draws(batch, "u_t", draws);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  const auto ids = made.ids.mutable_as<int32_t>(), targets = made.targets.mutable_as<int32_t>();
  const auto weights = made.weights.mutable_as<float>();
  const bool per_row = options_.str("loss_norm") == "sequence";
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const float t = times_.time(draws[row]);
    const double kept = alpha(t);
    const Key key = stream_key(seed, Stream::mask, static_cast<uint64_t>(step),
                               static_cast<uint64_t>(global.first + b));
    const auto uniform = [&](int64_t index) {
      return uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(index)));
    };
    int64_t trained = 0;
    // With shift 1 nothing stands before position 0: it is given.
    for (int64_t i = context.shift; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      if (!rows.trainable(static_cast<int64_t>(at))) continue;
      ++trained;
      targets[at] = rows.ids[at];
      if (uniform(i) < static_cast<float>(kept)) continue;
      const auto count = static_cast<double>(tokens.count());
      const auto index = static_cast<int64_t>(uniform(rows.seq + i) * count);
      ids[at] = tokens.at(std::min(index, tokens.count() - 1));
    }
    const double share = per_row ? static_cast<double>(std::max<int64_t>(trained, 1)) : 1.0;
    const double weight =
        uniform_weight(kept, schedule_->dalpha(t), tokens.count()) * times_.density(t) / share;
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      if (targets[at] >= 0) weights[at] = static_cast<float>(weight);
    }
    made.t.mutable_as<float>()[row] = t;
    made.normalizer.mutable_as<float>()[row] =
        per_row ? (trained > 0 ? 1.0f : 0.0f) : static_cast<float>(trained);
  }
  Batch prepared = made.added_to(batch);
  set_timesteps(prepared, made.t, context);
  return prepared;
}

Batch Uniform::feed(const Batch& prepared, const model::ModelConfig& config) const {
  Batch made = Objective::feed(prepared, config);
  const Tensor &ids = made.at("ids"), &rows = made.at(kHeadRows), &targets = made.at(kHeadTargets);
  const Tensor times = prepared.at("t").to(DType::f32);
  const int64_t batch = ids.shape()[0], seq = ids.shape()[1], capacity = rows.count();
  if (times.shape() != Shape{batch}) {
    fail(Code::invalid_argument, "array t has shape {}, expected ({})", times.shape().text(),
         batch);
  }
  check_unit("t", times);
  const int64_t tokens = noise_tokens(config.vocab_size, left_out(config)).count();
  Tensor noisy(DType::i32, {capacity}), terms(DType::f32, {capacity, kUniformTermCount});
  for (int32_t k = 0; k < made.at(kHeadCount).as<int32_t>()[0]; ++k) {
    const auto entry = static_cast<size_t>(k);
    const int64_t row = rows.as<int32_t>()[entry], position = row + shift(config);
    const int32_t token = ids.as<int32_t>()[static_cast<size_t>(position)];
    noisy.mutable_as<int32_t>()[entry] = token;
    const double t = times.as<float>()[static_cast<size_t>(row / seq)];
    const UniformTerms one = uniform_terms(alpha(t), tokens, token == targets.as<int32_t>()[entry]);
    const float values[] = {one.odds, one.kept, one.ratio, one.sum, one.clean, one.base};
    std::ranges::copy(values, terms.mutable_as<float>().subspan(entry * std::size(values)).begin());
  }
  made.set(kNoisy, noisy);
  made.set(kTerms, terms);
  return made;
}

Loss Uniform::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  const graph::Value hidden = builder.forward(inputs.tokens).hidden;
  const graph::Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const UniformRows rows{graph::take(flat, inputs.head_rows), inputs.all.at(kNoisy),
                         inputs.head_targets, inputs.all.at(kTerms)};
  const auto banned = static_cast<int32_t>(left_out(builder.config()));
  const bool known = banned >= 0 && banned < builder.config().vocab_size;
  const UniformLoss made =
      uniform_nelbo(model::whole(builder.head(), flat), rows, known ? banned : -1);
  const graph::Value zero = graph::full(builder.graph(), made.nll.shape(), 0.0f);
  const graph::Value used = graph::greater(inputs.head_weights, zero);
  Loss loss;
  loss.sum = graph::sum(graph::multiply(made.bound, inputs.head_weights), {0});
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  loss.parts.push_back({"nll",
                        graph::sum(graph::stop_gradient(graph::select(used, made.nll, zero)), {0}),
                        graph::convert(inputs.head_count, DType::f32)});
  return loss;
}

} // namespace

ObjectiveEntry objective_files::uniform() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& row : time_options(0.999)) keys.push_back(std::move(row));
  keys.push_back(option_choice("loss_norm", "token", {"token", "sequence"},
                               "What the summed bound is divided by: trainable tokens, or the "
                               "same per row and rows."));
  return {"uniform", "linear", std::move(keys), new_objective<Uniform>};
}

} // namespace dllm::noise
