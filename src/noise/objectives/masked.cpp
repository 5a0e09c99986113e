#include "noise/objectives/masked.h"

#include "base/error.h"
#include "text/data/trajectories.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace dllm::noise {
namespace {

enum class Norm { token, sequence, batch, masked };

Norm norm_of(const std::string& text) {
  if (text == "sequence") return Norm::sequence;
  if (text == "batch") return Norm::batch;
  return text == "masked" ? Norm::masked : Norm::token;
}

} // namespace

MaskedDiffusion::MaskedDiffusion(std::string name, ScheduleRef schedule, const Options& options,
                                 std::optional<TrajectoryMasks> trajectories)
    : MaskingObjective(std::move(schedule), options), name_(std::move(name)), times_(options_),
      trajectories_(std::move(trajectories)) {
  if (options_.f64("min_mask_ratio") > options_.f64("max_mask_ratio")) {
    fail(Code::invalid_argument, "min_mask_ratio {} is above max_mask_ratio {}",
         options_.f64("min_mask_ratio"), options_.f64("max_mask_ratio"));
  }
}

std::vector<std::string> MaskedDiffusion::raw_arrays() const {
  std::vector<std::string> names = {"positions", "limit", "mask", "keys", "t"};
  if (trajectories_) names.push_back(text::kTrajectory);
  return names;
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

// density: of uniform times over drawn times.
double MaskedDiffusion::loss_weight(double t, double density) const {
  if (options_.str("loss_weight") == "ones") return density;
  const double weight = schedule_->weight(t);
  const double limit = options_.f64("max_weight");
  return density * (limit > 0 ? std::min(weight, limit) : weight);
}

// Draws the masks of a row with the probability of its times.
MaskedDiffusion::Counts MaskedDiffusion::mask_by_times(const TokenRows& rows, int64_t row,
                                                       const Noise& noise,
                                                       TokenCeArrays* made) const {
  const auto seq = static_cast<size_t>(rows.seq);
  const size_t begin = static_cast<size_t>(row) * seq;
  const auto ids = made->ids.mutable_as<int32_t>().subspan(begin, seq);
  const auto targets = made->targets.mutable_as<int32_t>().subspan(begin, seq);
  const auto times = made->t.mutable_as<float>().subspan(static_cast<size_t>(row * noise.times),
                                                         static_cast<size_t>(noise.times));
  for (size_t k = 0; k < times.size(); ++k) {
    const size_t at = static_cast<size_t>(row * noise.times) + k;
    times[k] = noise.given.empty() ? times_.time(noise.draws.time[at]) : noise.given[at];
  }
  Counts counts;
  for (size_t i = 0; i < seq; ++i) {
    if (!rows.trainable(static_cast<int64_t>(begin + i))) continue;
    ++counts.trainable;
    const double probability =
        mask_probability(times[i / static_cast<size_t>(noise.tokens)], noise.bounds);
    if (!(noise.draws.mask[begin + i] < static_cast<float>(probability))) continue;
    ++counts.masked;
    targets[i] = rows.ids[begin + i];
    ids[i] = noise.mask;
  }
  return counts;
}

// Masks the tokens that the trajectory hides. The time follows from their part of the row.
MaskedDiffusion::Counts MaskedDiffusion::mask_by_trajectory(const TokenRows& rows, int64_t row,
                                                            const Noise& noise,
                                                            TokenCeArrays* made) const {
  const auto seq = static_cast<size_t>(rows.seq);
  const size_t begin = static_cast<size_t>(row) * seq;
  const TrajectoryChoice& chosen = noise.chosen[static_cast<size_t>(row)];
  Counts counts;
  counts.trainable = chosen.counted;
  for (size_t i = 0; i < seq; ++i) {
    if (chosen.tokens[i] == Masked::no) continue;
    made->ids.mutable_as<int32_t>()[begin + i] = noise.mask;
    if (chosen.tokens[i] == Masked::silent) continue;
    made->targets.mutable_as<int32_t>()[begin + i] = rows.ids[begin + i];
    ++counts.masked;
  }
  made->t.mutable_as<float>()[static_cast<size_t>(row)] =
      static_cast<float>(time_of_ratio(*schedule_, chosen.ratio));
  return counts;
}

// Returns the texts of a row. A row of a trajectory is one text, and so is every row of the
// references.
TextCounts MaskedDiffusion::texts_of(const TokenRows& rows, int64_t row, const Noise& noise,
                                     int64_t trainable) const {
  if (noise.chosen.empty() && !reference())
    return text_counts(rows, row, [&](int64_t i) { return rows.trainable(row * rows.seq + i); });
  const auto seq = static_cast<size_t>(rows.seq);
  return {std::vector<int64_t>(seq, std::max<int64_t>(trainable, 1)), 1, trainable > 0 ? 1 : 0};
}

void MaskedDiffusion::corrupt_row(const TokenRows& rows, int64_t row, const Noise& noise,
                                  TokenCeArrays* made) const {
  const bool traced = !noise.chosen.empty();
  const auto [trainable, masked] =
      traced ? mask_by_trajectory(rows, row, noise, made) : mask_by_times(rows, row, noise, made);
  const auto seq = static_cast<size_t>(rows.seq);
  const size_t begin = static_cast<size_t>(row) * seq;
  const auto targets = made->targets.mutable_as<int32_t>().subspan(begin, seq);
  const auto weights = made->weights.mutable_as<float>().subspan(begin, seq);
  const auto times = made->t.as<float>().subspan(static_cast<size_t>(row * noise.times),
                                                 static_cast<size_t>(noise.times));
  const Norm norm = norm_of(options_.str("loss_norm"));
  const TextCounts texts = texts_of(rows, row, noise, trainable);
  const std::vector<double> own = row_weights(rows, row, targets);
  for (size_t i = 0; i < seq; ++i) {
    if (targets[i] < 0) continue;
    const float t = times[i / static_cast<size_t>(noise.tokens)];
    const double density = traced ? 1.0 : times_.density(t);
    const double share = norm == Norm::sequence ? static_cast<double>(texts.tokens[i]) : 1.0;
    weights[i] = static_cast<float>((own.empty() ? loss_weight(t, density) : own[i]) / share);
  }
  const int64_t counted = counts_empty_rows() ? texts.texts : texts.trained;
  made->normalizer.mutable_as<float>()[static_cast<size_t>(row)] =
      norm == Norm::token      ? static_cast<float>(trainable)
      : norm == Norm::masked   ? static_cast<float>(masked)
      : norm == Norm::sequence ? static_cast<float>(counted)
      : counted > 0            ? 1.0f
                               : 0.0f;
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
  widen(text::kTrajectory, int32_t{0});
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

// Chooses the masks of all rows from array "trajectory".
std::vector<TrajectoryChoice> MaskedDiffusion::chosen_masks(const TokenRows& rows,
                                                            const Tensor& trajectory,
                                                            const Noise& noise, float jitter,
                                                            int64_t step) const {
  if (trajectory.shape() != Shape{rows.batch, rows.seq}) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {}", text::kTrajectory,
         trajectory.shape().text(), Shape{rows.batch, rows.seq}.text());
  }
  check_between(text::kTrajectory, trajectory, -1, std::numeric_limits<int32_t>::max(), "rows");
  const double ratio = trajectories_->jittered(step, jitter);
  const auto seq = static_cast<size_t>(rows.seq);
  std::vector<TrajectoryChoice> made;
  for (size_t b = 0; b < static_cast<size_t>(rows.batch); ++b) {
    std::vector<uint8_t> counts(seq);
    for (size_t i = 0; i < seq; ++i)
      counts[i] = rows.trainable(static_cast<int64_t>(b * seq + i)) ? 1 : 0;
    made.push_back(trajectories_->choose({trajectory.as<int32_t>().subspan(b * seq, seq), counts,
                                          std::span(noise.draws.mask).subspan(b * seq, seq),
                                          noise.draws.time[b]},
                                         step, ratio));
    made.back().ratio = trajectories_->loss_ratio(step, made.back().ratio);
  }
  return made;
}

Batch MaskedDiffusion::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                                    const PrepareContext& context) const {
  Noise noise;
  noise.mask = mask_id(context);
  noise.bounds = mask_ratio_bounds(step, context);
  TokenRows rows = token_rows(batch, context.vocab, context.shift == 1 && !reference());
  Batch source = batch;
  if (reference() && context.shift == 1 && first_column_trained(rows)) {
    source = with_bos_column(batch, context.bos_id);
    rows = token_rows(source, context.vocab, false);
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
  Tensor trajectory;
  if (const Tensor* given = source.find(text::kTrajectory)) trajectory = given->to(DType::i32);
  source.remove(text::kTrajectory);
  if (trajectory.defined() && !context.held_out) { // held-out losses compare between runs
    std::vector<float> jitter = {TrajectoryMasks::jitter(seed, step)};
    inject_draws(source, "u_jitter", jitter);
    noise.chosen = chosen_masks(rows, trajectory, noise, jitter[0], step);
    Tensor ratios(DType::f32, {rows.batch});
    for (size_t b = 0; b < noise.chosen.size(); ++b)
      ratios.mutable_as<float>()[b] = static_cast<float>(noise.chosen[b].ratio);
    source.set(kMaskRatio, ratios);
  }
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
      "What the summed loss is divided by: trainable tokens, the same per text and texts, rows, or "
      "masked tokens."));
  keys.push_back(
      option_f64("min_mask_ratio", 0.0, 0.0, 1.0, "Lower limit of the mask probability of a row."));
  keys.push_back(
      option_f64("max_mask_ratio", 1.0, 0.0, 1.0, "Upper limit of the mask probability of a row."));
  return keys;
}

std::vector<OptionSpec> masked_row_options() {
  std::vector<OptionSpec> keys = masked_options();
  for (OptionSpec& row : trajectory_options()) keys.push_back(std::move(row));
  return keys;
}

OptionSpec& option_of(std::vector<OptionSpec>& rows, const std::string& key) {
  const auto found = std::ranges::find(rows, key, &OptionSpec::key);
  if (found == rows.end()) fail(Code::internal, "there is no option {}", key);
  return *found;
}

} // namespace dllm::noise
