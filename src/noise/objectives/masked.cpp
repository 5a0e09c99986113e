#include "noise/objectives/masked.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

enum class Norm { token, sequence, batch, masked };

Norm norm_of(const std::string& text) {
  if (text == "sequence") return Norm::sequence;
  if (text == "batch") return Norm::batch;
  return text == "masked" ? Norm::masked : Norm::token;
}

} // namespace

MaskedDiffusion::MaskedDiffusion(std::string name, ScheduleRef schedule, const Options& options)
    : MaskingObjective(std::move(schedule), options), name_(std::move(name)), times_(options_) {
  if (options_.f64("min_mask_ratio") > options_.f64("max_mask_ratio")) {
    fail(Code::invalid_argument, "min_mask_ratio {} is above max_mask_ratio {}",
         options_.f64("min_mask_ratio"), options_.f64("max_mask_ratio"));
  }
}

bool MaskedDiffusion::spreads_over_rows() const {
  return !jax() && times_.spreads();
}

MaskedDiffusion::Draws MaskedDiffusion::own_draws(const TokenRows& rows, int64_t times,
                                                  std::pair<int64_t, int64_t> global, uint64_t seed,
                                                  int64_t step) const {
  return {times_.draws(rows.batch, times, global, seed, step),
          mask_draws(rows.batch, rows.seq, global.first, seed, step)};
}

// compat = dllm-jax: the trainer's key is split once per prepared batch. The batch's key is split
// into keys of times and masks. The draws cover the local batch.
MaskedDiffusion::Draws MaskedDiffusion::jax_draws(const TokenRows& rows, int64_t times,
                                                  uint64_t seed, int64_t step,
                                                  const PrepareContext& context) const {
  const std::vector<Key> keys = split(reference_batch_key(seed, step, context), 2);
  Draws draws{std::vector<float>(static_cast<size_t>(rows.batch * times)),
              std::vector<float>(static_cast<size_t>(rows.batch * rows.seq))};
  random_uniform(keys[0], draws.time);
  random_uniform(keys[1], draws.mask);
  return draws;
}

bool MaskedDiffusion::is_nelbo() const {
  return options_.str("loss_weight") == "scheduler" && options_.str("loss_norm") == "token" &&
         options_.f64("max_weight") == 0 && options_.f64("min_mask_ratio") == 0 &&
         options_.f64("max_mask_ratio") == 1;
}

double MaskedDiffusion::mask_probability(double t, std::pair<double, double> bounds) const {
  return std::clamp(schedule_->mask_prob(t), bounds.first, bounds.second);
}

double MaskedDiffusion::loss_weight(double t) const {
  if (options_.str("loss_weight") == "ones") return times_.density(t);
  const double weight = schedule_->weight(t);
  const double limit = options_.f64("max_weight");
  return times_.density(t) * (limit > 0 ? std::min(weight, limit) : weight);
}

void MaskedDiffusion::corrupt_row(const TokenRows& rows, int64_t row, const Noise& noise,
                                  TokenCeArrays* made) const {
  const auto seq = static_cast<size_t>(rows.seq);
  const size_t begin = static_cast<size_t>(row) * seq;
  const auto ids = made->ids.mutable_as<int32_t>().subspan(begin, seq);
  const auto targets = made->targets.mutable_as<int32_t>().subspan(begin, seq);
  const auto weights = made->weights.mutable_as<float>().subspan(begin, seq);
  const auto times = made->t.mutable_as<float>().subspan(static_cast<size_t>(row * noise.times),
                                                         static_cast<size_t>(noise.times));
  for (size_t k = 0; k < times.size(); ++k) {
    const size_t at = static_cast<size_t>(row * noise.times) + k;
    times[k] = noise.given.empty() ? times_.time(noise.draws.time[at]) : noise.given[at];
  }
  int64_t trainable = 0, masked = 0;
  for (size_t i = noise.first_is_given ? 1 : 0; i < seq; ++i) {
    if (!rows.trainable(static_cast<int64_t>(begin + i))) continue;
    ++trainable;
    const double probability =
        mask_probability(times[i / static_cast<size_t>(noise.tokens)], noise.bounds);
    if (!(noise.draws.mask[begin + i] < static_cast<float>(probability))) continue;
    ++masked;
    targets[i] = rows.ids[begin + i];
    ids[i] = noise.mask;
  }
  const Norm norm = norm_of(options_.str("loss_norm"));
  const double share =
      norm == Norm::sequence ? static_cast<double>(std::max<int64_t>(trainable, 1)) : 1.0;
  const std::vector<double> own = row_weights(rows, row, targets);
  for (size_t i = 0; i < seq; ++i) {
    if (targets[i] < 0) continue;
    const float t = times[i / static_cast<size_t>(noise.tokens)];
    weights[i] = static_cast<float>((own.empty() ? loss_weight(t) : own[i]) / share);
  }
  const float one = trainable > 0 || counts_empty_rows() ? 1.0f : 0.0f;
  made->normalizer.mutable_as<float>()[static_cast<size_t>(row)] =
      norm == Norm::token    ? static_cast<float>(trainable)
      : norm == Norm::masked ? static_cast<float>(masked)
                             : one;
}

namespace {

// compat = dllm-jax | dllm with shift 1: adds one BOS column before the whole batch, unless every
// row starts untrained.
Batch with_bos_column(const Batch& batch, int64_t bos_id) {
  if (bos_id < 0)
    fail(Code::failed_precondition,
         "compat with shift 1 puts a BOS token in front, and the model has no BOS token");
  Batch wider = batch;
  const Shape shape = batch.at("ids").shape();
  const auto widen = [&](const char* name, auto first) {
    const Tensor* old = batch.find(name);
    if (old == nullptr || old->shape().rank() != 2) return;
    using T = decltype(first);
    Tensor made(old->dtype(), {shape[0], shape[1] + 1});
    for (int64_t b = 0; b < shape[0]; ++b) {
      const auto target = made.mutable_as<T>().subspan(static_cast<size_t>(b * (shape[1] + 1)));
      target[0] = first;
      std::ranges::copy(
          old->as<T>().subspan(static_cast<size_t>(b * shape[1]), static_cast<size_t>(shape[1])),
          target.begin() + 1);
    }
    wider.set(name, made);
  };
  widen("ids", static_cast<int32_t>(bos_id));
  widen("labels", int32_t{-100});
  widen("keep", uint8_t{1});
  widen("segments", int32_t{1});
  widen("keys", uint8_t{1});
  widen("u_mask", 1.0f);
  return wider;
}

// Returns array t: one time per row, or one per block of a row. Undefined when the batch has none.
Tensor given_times(const Batch& batch, const Shape& shape) {
  const Tensor* given = batch.find("t");
  if (given == nullptr) return {};
  const bool of_rows = given->shape() == Shape{shape[0]};
  if (!of_rows && given->shape() != shape) {
    fail(Code::invalid_argument, "array t has shape {}, expected {}", given->shape().text(),
         shape.text());
  }
  const Tensor times = given->to(DType::f32);
  check_unit("t", times);
  if (shape.rank() == 1 || !of_rows) return times;
  Tensor repeated(DType::f32, shape);
  const auto blocks = static_cast<size_t>(shape[1]);
  const auto all = repeated.mutable_as<float>();
  for (size_t i = 0; i < all.size(); ++i) all[i] = times.as<float>()[i / blocks];
  return repeated;
}

bool first_column_trained(const TokenRows& rows) {
  for (int64_t b = 0; b < rows.batch; ++b) {
    if (rows.seq > 0 && rows.trainable(b * rows.seq)) return true;
  }
  return false;
}

} // namespace

Batch MaskedDiffusion::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                                    const PrepareContext& context) const {
  Noise noise;
  noise.mask = mask_id(context);
  noise.bounds = mask_ratio_bounds(step, context);
  TokenRows rows = token_rows(batch, context.vocab);
  Batch source = batch;
  if (reference() && context.shift == 1 && first_column_trained(rows)) {
    source = with_bos_column(batch, context.bos_id);
    rows = token_rows(source, context.vocab);
  }
  noise.tokens = std::max<int64_t>(tokens_per_time(rows.seq, context), 1);
  noise.times = std::max<int64_t>((rows.seq + noise.tokens - 1) / noise.tokens, 1);
  noise.draws = jax() ? jax_draws(rows, noise.times, seed, step, context)
                      : own_draws(rows, noise.times, source.global_rows(rows.batch), seed, step);
  inject_draws(source, "u_t", noise.draws.time);
  inject_draws(source, "u_mask", noise.draws.mask);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  if (noise.times > 1) made.t = Tensor(DType::f32, {rows.batch, noise.times});
  const Tensor times = given_times(source, made.t.shape());
  if (times.defined()) noise.given = times.as<float>();
  // With shift 1 no state predicts position 0, so the token there is given.
  noise.first_is_given = context.shift == 1 && !reference();
  for (int64_t b = 0; b < rows.batch; ++b) corrupt_row(rows, b, noise, &made);
  if (noise.times == 1) set_timesteps(source, made.t, context);
  return finished(made, source);
}

Json MaskedDiffusion::describe() const {
  Json made = Objective::describe();
  if (jax()) {
    made["quirks"].push_back(
        "times and masks of the local batch come from one key per batch (dllm-jax, trainers)");
  }
  if (reference()) {
    made["quirks"].push_back("shift 1 puts a BOS column in front; position 0 is read from itself "
                             "(dllm-jax, MDLM trainer)");
  }
  return made;
}

std::vector<OptionSpec> masked_options() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& row : time_options()) keys.push_back(std::move(row));
  keys.push_back(option_choice("loss_weight", "scheduler", {"scheduler", "ones"},
                               "scheduler weighs by the schedule (the NELBO), ones by nothing."));
  keys.push_back(option_f64("max_weight", 0.0, 0.0, 1e9, "Upper limit of the weight, 0: none."));
  keys.push_back(option_choice(
      "loss_norm", "token", {"token", "sequence", "batch", "masked"},
      "What the summed loss is divided by: trainable tokens, the same per row, rows, or "
      "masked tokens."));
  keys.push_back(
      option_f64("min_mask_ratio", 0.0, 0.0, 1.0, "Lower limit of the mask probability of a row."));
  keys.push_back(
      option_f64("max_mask_ratio", 1.0, 0.0, 1.0, "Upper limit of the mask probability of a row."));
  return keys;
}

OptionSpec& option_of(std::vector<OptionSpec>& rows, const std::string& key) {
  const auto found = std::ranges::find(rows, key, &OptionSpec::key);
  if (found == rows.end()) fail(Code::internal, "there is no option {}", key);
  return *found;
}

} // namespace dllm::noise
