#include "base/error.h"
#include "noise/objectives/table.h"
#include "noise/token_ce.h"

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

// Masked diffusion (Sahoo et al. 2024, MDLM; Nie et al. 2025, LLaDA): a time per row, every
// trainable token masked with probability 1 - alpha(t), the loss on masked tokens weighted by
// -alpha' / (1 - alpha). The token norm divides by the trainable tokens, masked or not: then the
// loss is the NELBO per token.
class Mdlm final : public MaskingObjective {
public:
  Mdlm(ScheduleRef schedule, const Options& options)
      : MaskingObjective(std::move(schedule), options) {
    if (options_.f64("min_mask_ratio") > options_.f64("max_mask_ratio")) {
      fail(Code::invalid_argument, "min_mask_ratio {} is above max_mask_ratio {}",
           options_.f64("min_mask_ratio"), options_.f64("max_mask_ratio"));
    }
  }
  const std::string& name() const override { return name_; }
  bool keyed_by_batch() const override { return jax(); }
  bool spreads_over_rows() const override {
    return !jax() && options_.str("time_sampling") == "low_discrepancy";
  }
  Batch prepare(const Batch& batch, uint64_t seed, int64_t step,
                const PrepareContext& context) const override;
  Json describe() const override;

private:
  bool jax() const { return options_.str("compat") == "dllm-jax"; }
  bool reference() const { return jax() || options_.str("compat") == "dllm"; }

  struct Draws {
    std::vector<float> time; // uniform, (batch)
    std::vector<float> mask; // uniform, (batch, seq)
  };
  Draws own_draws(const TokenRows& rows, std::pair<int64_t, int64_t> global, uint64_t seed,
                  int64_t step) const;
  Draws jax_draws(const TokenRows& rows, uint64_t seed, int64_t step,
                  const PrepareContext& context) const;
  void corrupt(const TokenRows& rows, const Draws& draws, const float* given_t, int32_t mask,
               bool first_is_given, TokenCeArrays* made) const;
  double mask_probability(double t) const;
  double loss_weight(double t) const;

  std::string name_ = "mdlm";
};

// Every number has a key of its own (seed, stream, step, global row), so a batch may be cut
// anywhere.
Mdlm::Draws Mdlm::own_draws(const TokenRows& rows, std::pair<int64_t, int64_t> global,
                            uint64_t seed, int64_t step) const {
  Draws draws;
  const bool spread = spreads_over_rows();
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<uint64_t>(global.first + b);
    float u = uniform_from_bits(
        random_bits_at(stream_key(seed, Stream::time, static_cast<uint64_t>(step), row), 0));
    if (spread) { // (u / n + row / n) mod 1, n rows of the update, as nano-dlm
      const double n = static_cast<double>(std::max<int64_t>(global.second, 1));
      u = static_cast<float>(std::fmod((u + static_cast<double>(row)) / n, 1.0));
    }
    draws.time.push_back(u);
    const Key key = stream_key(seed, Stream::mask, static_cast<uint64_t>(step), row);
    for (int64_t i = 0; i < rows.seq; ++i) {
      draws.mask.push_back(uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(i))));
    }
  }
  return draws;
}

// compat = dllm-jax: the trainer's key splits once per prepared batch, the
// batch's key splits into those of times and masks; the draws cover the local batch.
Mdlm::Draws Mdlm::jax_draws(const TokenRows& rows, uint64_t seed, int64_t step,
                            const PrepareContext& context) const {
  Key batch_key;
  if (context.batch_key) {
    batch_key = *context.batch_key;
  } else {
    Key running = make_key(seed);
    for (int64_t i = 0; i <= step; ++i) {
      const std::vector<Key> two = split(running, 2);
      running = two[0];
      batch_key = two[1];
    }
  }
  const std::vector<Key> keys = split(batch_key, 2);
  Draws draws{std::vector<float>(static_cast<size_t>(rows.batch)),
              std::vector<float>(static_cast<size_t>(rows.batch * rows.seq))};
  random_uniform(keys[0], draws.time);
  random_uniform(keys[1], draws.mask);
  return draws;
}

double Mdlm::mask_probability(double t) const {
  return std::clamp(schedule_->mask_prob(t), options_.f64("min_mask_ratio"),
                    options_.f64("max_mask_ratio"));
}

double Mdlm::loss_weight(double t) const {
  if (options_.str("loss_weight") == "ones") return 1.0;
  const double weight = schedule_->weight(t);
  const double limit = options_.f64("max_weight");
  return limit > 0 ? std::min(weight, limit) : weight;
}

void Mdlm::corrupt(const TokenRows& rows, const Draws& draws, const float* given_t, int32_t mask,
                   bool first_is_given, TokenCeArrays* made) const {
  const auto eps = static_cast<float>(options_.f64("time_epsilon"));
  const Norm norm = norm_of(options_.str("loss_norm"));
  const auto ids = made->ids.mutable_as<int32_t>();
  const auto targets = made->targets.mutable_as<int32_t>();
  const auto weights = made->weights.mutable_as<float>();
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const float t = given_t != nullptr ? given_t[b] : eps + (1.0f - eps) * draws.time[row];
    const double probability = mask_probability(t);
    int64_t trainable = 0, masked = 0;
    for (int64_t i = first_is_given ? 1 : 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      if (!rows.trainable(static_cast<int64_t>(at))) continue;
      ++trainable;
      if (!(draws.mask[at] < static_cast<float>(probability))) continue;
      ++masked;
      targets[at] = rows.ids[at];
      ids[at] = mask;
    }
    const double share =
        norm == Norm::sequence ? static_cast<double>(std::max<int64_t>(trainable, 1)) : 1.0;
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      if (targets[at] >= 0) weights[at] = static_cast<float>(loss_weight(t) / share);
    }
    made->t.mutable_as<float>()[row] = t;
    made->normalizer.mutable_as<float>()[row] = norm == Norm::token ? static_cast<float>(trainable)
                                                : norm == Norm::masked ? static_cast<float>(masked)
                                                                       : 1.0f;
  }
}

// compat = dllm-jax | dllm with shift 1: unless every row starts
// untrained, one BOS column is put in front of the whole batch.
Batch with_bos_column(const Batch& batch, int64_t bos_id) {
  if (bos_id < 0)
    fail(Code::failed_precondition,
         "compat with shift 1 puts a BOS token in front; there is no BOS token");
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

bool first_column_trained(const TokenRows& rows) {
  for (int64_t b = 0; b < rows.batch; ++b) {
    if (rows.seq > 0 && rows.trainable(b * rows.seq)) return true;
  }
  return false;
}

Batch Mdlm::prepare(const Batch& batch, uint64_t seed, int64_t step,
                    const PrepareContext& context) const {
  const int32_t mask = mask_id(context);
  TokenRows rows = token_rows(batch, context.vocab);
  Batch source = batch;
  if (reference() && context.shift == 1 && first_column_trained(rows)) {
    source = with_bos_column(batch, context.bos_id);
    rows = token_rows(source, context.vocab);
  }
  Draws draws = jax() ? jax_draws(rows, seed, step, context)
                      : own_draws(rows, source.global_rows(rows.batch), seed, step);
  inject_draws(source, "u_t", draws.time);
  inject_draws(source, "u_mask", draws.mask);
  const Tensor* given = source.find("t");
  if (given != nullptr && given->shape() != Shape{rows.batch}) {
    fail(Code::invalid_argument, "array t has shape {}, expected ({})", given->shape().text(),
         rows.batch);
  }
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  const Tensor times = given != nullptr ? given->to(DType::f32) : Tensor{};
  if (times.defined()) check_unit("t", times);
  // With shift 1 nothing stands before position 0: it is given.
  const bool first_is_given = context.shift == 1 && !reference();
  corrupt(rows, draws, times.defined() ? times.as<float>().data() : nullptr, mask, first_is_given,
          &made);
  return made.added_to(source);
}

Json Mdlm::describe() const {
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

} // namespace

ObjectiveEntry objective_files::mdlm() {
  std::vector<OptionSpec> keys = shared_objective_options();
  keys.push_back(option_f64("time_epsilon", 1e-3, 0.0, 0.5, "Smallest time that is drawn."));
  keys.push_back(
      option_choice("time_sampling", "uniform", {"uniform", "low_discrepancy"},
                    "low_discrepancy spreads the times of an update evenly over 0 to 1."));
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
  return {"mdlm", "linear", std::move(keys), new_objective<Mdlm>};
}

} // namespace dllm::noise
