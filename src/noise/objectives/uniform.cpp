// Diffusion with uniform noise (Schiff et al. 2024, UDLM; Sahoo et al. 2025, Duo). With probability
// 1 - alpha(t) a token becomes any token of the vocabulary. An id does not show whether it is
// noise, so every position is predicted and may change again. The loss is the continuous-time bound
// (noise/loss/uniform_nelbo.h), in nats per trainable token. The mask token of a model is never
// noise or a prediction. The decoding policy of the same name samples the model.
// In the updates of `curriculum` noise is the argmax of Gaussian noise, and the model reads its
// softmax (noise/schedules/gaussian_noise.h).

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/loss/uniform_nelbo.h"
#include "noise/objectives/table.h"
#include "noise/rows/soft_rows.h"
#include "noise/rows/text_counts.h"
#include "noise/rows/times.h"

#include <algorithm>
#include <array>

namespace dllm::noise {
namespace {

// Tokens that may be noise: all but one (-1: all).
struct NoiseTokens {
  int64_t vocab = 0, left_out = -1;
  int64_t count() const { return vocab - (left_out >= 0 ? 1 : 0); }
  int32_t at(int64_t index) const {
    return static_cast<int32_t>(left_out >= 0 && index >= left_out ? index + 1 : index);
  }
  int64_t index_of(int32_t token) const {
    return left_out >= 0 && token > left_out ? token - 1 : token;
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
      : Objective(std::move(schedule), options), times_(options_) {
    if (options_.f64("gamma_low") >= options_.f64("gamma_high")) {
      fail(Code::invalid_argument, "gamma_low {} is not below gamma_high {}",
           options_.f64("gamma_low"), options_.f64("gamma_high"));
    }
  }
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  bool bounds_likelihood() const override { return options_.str("loss_norm") == "token"; }
  bool spreads_over_rows() const override { return times_.spreads(); }
  model::AttentionKind attention(const model::ModelConfig& config) const override {
    return options_.str("attention") == "auto" ? model::AttentionKind::bidirectional
                                               : Objective::attention(config);
  }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;

protected:
  // The ids of prepared rows are the noised tokens.
  std::vector<std::string> prepared_arrays() const override { return {"t"}; }
  std::vector<std::string> raw_arrays() const override {
    return {"positions", "limit", "mask", "keys", "t"};
  }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  // Inside of (0, 1), because the bound divides by both ends.
  static double inside(double alpha) { return std::clamp(alpha, 1e-6, 1.0 - 1e-6); }
  double alpha(double t) const { return inside(schedule_->alpha(t)); }
  double gamma(double t) const {
    return options_.f64("gamma_low") + t * (options_.f64("gamma_high") - options_.f64("gamma_low"));
  }
  // alpha(t) and its derivative, of the schedule or of Gaussian noise.
  struct Level {
    double kept = 0, slope = 0;
  };
  Level level(double t, int64_t tokens, bool soft) const {
    if (!soft) return {alpha(t), schedule_->dalpha(t)};
    constexpr double kStep = 1e-3; // as in the paper
    const double at = gaussian_alpha(gamma(t), tokens);
    const double change = gaussian_alpha(gamma(t) + kStep, tokens) - at;
    return {inside(at), change / kStep * (options_.f64("gamma_high") - options_.f64("gamma_low"))};
  }
  struct RowNoise {
    NoiseTokens tokens;
    int64_t seq = 0, row = 0;
    bool soft = false; // of Gaussian noise
    double gamma = 0;
    Level level;
    Key key;
  };
  int32_t noised(const RowNoise& noise, int64_t place, int32_t clean, SoftRows& soft) const;
  int64_t left_out(const model::ModelConfig& config) const {
    const int64_t chosen = options_.i64("mask_id");
    return chosen >= 0 ? chosen : config.mask_token_id;
  }

  std::string name_ = "uniform";
  TimeSampler times_;
};

// Returns the noised token of a clean one. In the curriculum it also sets the mixture that the
// model reads.
int32_t Uniform::noised(const RowNoise& noise, int64_t place, int32_t clean, SoftRows& soft) const {
  const auto uniform = [&](int64_t index) {
    return uniform_from_bits(random_bits_at(noise.key, static_cast<uint64_t>(index)));
  };
  const NoiseTokens& tokens = noise.tokens;
  if (noise.soft && clean != tokens.left_out) {
    const SoftToken token =
        draw_soft_token(noise.key, static_cast<uint64_t>(place), tokens.index_of(clean),
                        tokens.count(), noise.gamma, options_.f64("curriculum_temperature"));
    std::array<int32_t, kSoftTokens> ids{};
    std::ranges::transform(token.tokens, ids.begin(), [&](int64_t i) { return tokens.at(i); });
    soft.set(static_cast<size_t>(noise.row * noise.seq + place), ids, token.weights);
    return tokens.at(token.noisy);
  }
  if (uniform(place) < static_cast<float>(noise.level.kept)) return clean;
  const auto count = static_cast<double>(tokens.count());
  const auto index = static_cast<int64_t>(uniform(noise.seq + place) * count);
  return tokens.at(std::min(index, tokens.count() - 1));
}

Batch Uniform::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                            const PrepareContext& context) const {
  const TokenRows rows = token_rows(batch, context.vocab, context.shift == 1);
  const std::pair<int64_t, int64_t> global = batch.global_rows(rows.batch);
  std::vector<float> draws = times_.draws(rows.batch, 1, global, seed, step);
  inject_draws(batch, "u_t", draws);
  std::vector<float> levels;
  for (const float draw : draws) levels.push_back(times_.time(draw));
  inject_draws(batch, "t", levels);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  const auto ids = made.ids.mutable_as<int32_t>(), targets = made.targets.mutable_as<int32_t>();
  const auto weights = made.weights.mutable_as<float>();
  const bool per_text = options_.str("loss_norm") == "sequence";
  RowNoise noise{.tokens = noise_tokens(context.vocab, context.mask_id), .seq = rows.seq};
  noise.soft = step < options_.i64("curriculum") && !context.held_out;
  SoftRows soft(noise.soft ? rows.batch : 0, noise.soft ? rows.seq : 0);
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const float t = levels[row];
    noise.row = b;
    noise.gamma = gamma(t);
    noise.level = level(t, noise.tokens.count(), noise.soft);
    noise.key = stream_key(seed, Stream::mask, static_cast<uint64_t>(step),
                           static_cast<uint64_t>(global.first + b));
    if (noise.soft) soft.set_alpha(row, noise.level.kept);
    int64_t trained = 0;
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      if (!rows.trainable(static_cast<int64_t>(at))) continue;
      ++trained;
      targets[at] = rows.ids[at];
      ids[at] = noised(noise, i, rows.ids[at], soft);
    }
    const TextCounts texts = text_counts(
        rows, b, [&](int64_t i) { return targets[static_cast<size_t>(b * rows.seq + i)] >= 0; });
    const double weight =
        uniform_weight(noise.level.kept, noise.level.slope, noise.tokens.count()) *
        times_.density(t);
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      const double share = per_text ? static_cast<double>(texts.tokens[static_cast<size_t>(i)]) : 1;
      if (targets[at] >= 0) weights[at] = static_cast<float>(weight / share);
    }
    made.t.mutable_as<float>()[row] = t;
    made.normalizer.mutable_as<float>()[row] =
        static_cast<float>(per_text ? texts.trained : trained);
  }
  Batch prepared = made.added_to(batch);
  soft.add_to(prepared);
  set_timesteps(prepared, made.t, context);
  return prepared;
}

Batch Uniform::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  Batch made = Objective::feed_rows(prepared, config);
  const Tensor &ids = made.at("ids"), &rows = made.at(kHeadRows), &targets = made.at(kHeadTargets);
  const Tensor times = prepared.at("t").to(DType::f32);
  const int64_t batch = ids.shape()[0], seq = ids.shape()[1], capacity = rows.count();
  if (times.shape() != Shape{batch}) {
    fail(Code::invalid_argument, "array t has shape {}, expected ({})", times.shape().text(),
         batch);
  }
  check_unit("t", times);
  const Tensor* levels = SoftRows::alpha_of(prepared);
  const int64_t tokens = noise_tokens(config.vocab_size, left_out(config)).count();
  Tensor noisy(DType::i32, {capacity}), terms(DType::f32, {capacity, kUniformTermCount});
  for (int32_t k = 0; k < made.at(kHeadCount).as<int32_t>()[0]; ++k) {
    const auto entry = static_cast<size_t>(k);
    const int64_t row = rows.as<int32_t>()[entry], position = row + shift(config);
    const int32_t token = ids.as<int32_t>()[static_cast<size_t>(position)];
    noisy.mutable_as<int32_t>()[entry] = token;
    const auto b = static_cast<size_t>(row / seq);
    const double kept = levels != nullptr ? levels->as<float>()[b] : alpha(times.as<float>()[b]);
    const UniformTerms one =
        uniform_terms(inside(kept), tokens, token == targets.as<int32_t>()[entry]);
    const float values[] = {one.odds, one.kept, one.ratio, one.sum, one.clean, one.base};
    std::ranges::copy(values, terms.mutable_as<float>().subspan(entry * std::size(values)).begin());
  }
  made.set(kNoisy, noisy);
  made.set(kTerms, terms);
  SoftRows::feed(prepared, made);
  return made;
}

Loss Uniform::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  model::ForwardInputs tokens = inputs.tokens;
  tokens.embeddings = SoftRows::embeddings(builder, inputs);
  const graph::Value hidden = builder.forward(tokens).hidden;
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
                               "same per text and texts."));
  keys.push_back(option_i64("curriculum", 0, 0, int64_t{1} << 40,
                            "Updates at the start in which noise is the argmax of Gaussian noise "
                            "and the model reads its softmax (Duo); 0: none."));
  keys.push_back(option_f64(
      "curriculum_temperature", 1e-3, 1e-6, 1e3,
      "Temperature of the softmax of the curriculum: the lower, the nearer to a single token."));
  keys.push_back(option_f64("gamma_low", -3.55, -50.0, 50.0,
                            "Gaussian noise of the curriculum at time 0, log(s^2 / a^2)."));
  keys.push_back(
      option_f64("gamma_high", -1.85, -50.0, 50.0, "Gaussian noise of the curriculum at time 1."));
  return {"uniform",
          "linear",
          std::move(keys),
          new_objective<Uniform>,
          {.rows = RowKind::replaced,
           .policy = "uniform",
           .sample = R"({"policy": "uniform", "steps": 16})",
           .likelihood = true}};
}

} // namespace dllm::noise
