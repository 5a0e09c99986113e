// Masked diffusion as Open-dLLM trains it (github.com/pengzhangzhi/Open-dLLM). The loss has two
// means over masked tokens without the weight of the schedule. The second mean raises the weight of
// tokens that the model already predicts (noise/loss/path_loss.h). Each row has one mask ratio r ~
// U(time_epsilon, 1), limited to min_mask_ratio and max_mask_ratio.

#include "base/error.h"
#include "noise/loss/path_loss.h"
#include "noise/objectives/masked.h"

#include <algorithm>
#include <string>

namespace dllm::noise {
namespace {

constexpr const char* kPairs = "row_pairs";   // f32(capacity): a row and the next one
constexpr const char* kOwners = "row_owners"; // i32(capacity): the row of the batch

class OpenDllm final : public MaskedDiffusion {
public:
  OpenDllm(ScheduleRef schedule, const Options& options)
      : MaskedDiffusion("open_dllm", std::move(schedule), options, TrajectoryMasks(options)) {}

  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;

protected:
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

  // The range begins as 0.15 to 0.85 and reaches the options' range at step `curriculum`.
  std::pair<double, double> mask_ratio_bounds(int64_t step,
                                              const PrepareContext& context) const override {
    const auto [low, high] = MaskedDiffusion::mask_ratio_bounds(step, context);
    const int64_t steps = options_.i64("curriculum");
    if (context.held_out || step >= steps) return {low, high};
    const double left = 1.0 - static_cast<double>(step) / static_cast<double>(steps);
    return {low + std::max(0.15 - low, 0.0) * left, high - std::max(high - 0.85, 0.0) * left};
  }

private:
  // Min-SNR (Hang et al. 2023, arXiv 2303.09556): every sum of a row has the weight min(1 / ratio,
  // gamma).
  double row_weight(double ratio) const {
    const double gamma = options_.f64("min_snr_gamma");
    return gamma > 0 ? std::min(1.0 / std::max(ratio, 1e-3), gamma) : 1.0;
  }
  bool hard() const { return options_.str("repetition") == "hard"; }
  Tensor pairs(const Batch& prepared, const Batch& feed, int64_t shift) const;
};

Batch OpenDllm::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                             const PrepareContext& context) const {
  Batch made = MaskedDiffusion::prepare_rows(batch, seed, step, context);
  const Tensor* traced_ratios = made.find(kMaskRatio); // of rows that are masked by trajectories
  Tensor ratios(DType::f32, made.at("t").shape()), weights = made.at("weights").clone();
  const auto times = made.at("t").as<float>();
  const auto bounds = mask_ratio_bounds(step, context);
  const auto seq = static_cast<size_t>(weights.shape()[1]);
  for (size_t b = 0; b < times.size(); ++b) {
    const double ratio = traced_ratios != nullptr ? traced_ratios->as<float>()[b]
                                                  : mask_probability(times[b], bounds);
    ratios.mutable_as<float>()[b] = static_cast<float>(ratio);
    for (float& weight : weights.mutable_as<float>().subspan(b * seq, seq))
      weight *= static_cast<float>(row_weight(ratio));
  }
  made.set(kMaskRatio, ratios);
  made.set("weights", weights);
  return made;
}

// Returns the weights of pairs: masked neighbours of one row with different targets. The weights
// make the mean over the pairs of each row, times the weight of the row's tokens. In the hard form
// the graph divides by the pairs that collide.
Tensor OpenDllm::pairs(const Batch& prepared, const Batch& feed, int64_t shift) const {
  const auto rows = feed.at(kHeadRows).as<int32_t>(), targets = feed.at(kHeadTargets).as<int32_t>();
  const auto normalizer = feed.at(kNormalizer).as<float>();
  const auto batch = static_cast<int64_t>(normalizer.size());
  const auto seq = prepared.at("targets").shape()[1];
  const auto count = static_cast<size_t>(feed.at(kHeadCount).as<int32_t>()[0]);
  // The reference takes 128 predictions at a time and leaves out pairs across an edge.
  const int32_t chunk = options_.str("compat") == "open-dllm" ? 128 : 0;
  const Tensor* ratios = prepared.find(kMaskRatio);
  const auto row_of = [&](size_t k) { return (rows[k] + shift) / seq; };
  const auto is_pair = [&](size_t k) {
    if (k + 1 >= count || rows[k + 1] != rows[k] + 1 || row_of(k) != row_of(k + 1)) return false;
    const auto at = static_cast<int32_t>(rows[k + 1] % seq);
    return targets[k] != targets[k + 1] && (chunk == 0 || at % chunk != 0);
  };
  std::vector<int64_t> found(static_cast<size_t>(batch));
  for (size_t k = 0; k < count; ++k) found[static_cast<size_t>(row_of(k))] += is_pair(k) ? 1 : 0;
  Tensor made(DType::f32, feed.at(kHeadRows).shape());
  for (size_t k = 0; k < count; ++k) {
    if (!is_pair(k)) continue;
    const auto b = static_cast<size_t>(row_of(k));
    const double ratio = ratios != nullptr ? ratios->as<float>()[b] : 1.0;
    const auto among = hard() ? 1.0 : static_cast<double>(found[b]);
    made.mutable_as<float>()[k] =
        static_cast<float>(options_.f64("anti_repetition") * row_weight(ratio) *
                           static_cast<double>(normalizer[b]) / among);
  }
  return made;
}

Batch OpenDllm::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  Batch made = MaskedDiffusion::feed_rows(prepared, config);
  if (options_.f64("anti_repetition") == 0) return made;
  made.set(kPairs, pairs(prepared, made, shift(config)));
  if (!hard()) return made;
  Tensor owners(DType::i32, made.at(kHeadRows).shape());
  const auto seq = static_cast<int32_t>(prepared.at("targets").shape()[1]);
  for (int64_t k = 0; k < owners.count(); ++k) {
    const auto at = static_cast<size_t>(k);
    owners.mutable_as<int32_t>()[at] = made.at(kHeadRows).as<int32_t>()[at] / seq;
  }
  made.set(kOwners, owners);
  return made;
}

Loss OpenDllm::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  const graph::Value hidden = builder.forward(inputs.tokens).hidden;
  const graph::Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  PathRows rows{graph::take(flat, inputs.head_rows),
                inputs.head_targets,
                inputs.head_count,
                inputs.head_weights,
                {},
                {},
                inputs.normalizer.dim(0)};
  if (const auto owners = inputs.all.find(kOwners); owners != inputs.all.end())
    rows.owners = owners->second;
  if (const auto pairs = inputs.all.find(kPairs); pairs != inputs.all.end())
    rows.pairs = pairs->second;
  const PathLoss made = path_loss(builder.head(), rows);
  Loss loss;
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  loss.sum = graph::add(made.masked, made.path);
  const auto part = [&](const char* name, graph::Value sum, graph::Value count) {
    loss.parts.push_back({name, graph::stop_gradient(sum), count});
  };
  part("nll", graph::sum(made.nll, {0}), graph::convert(inputs.head_count, DType::f32));
  part("path", made.path, loss.normalizer);
  if (made.repetition.defined()) {
    loss.sum = graph::add(loss.sum, made.repetition);
    part("repetition", made.repetition, loss.normalizer);
  }
  return loss;
}

} // namespace

ObjectiveEntry objective_files::open_dllm() {
  std::vector<OptionSpec> keys = masked_row_options();
  option_of(keys, "loss_weight").default_value = std::string("ones");
  option_of(keys, "loss_norm").default_value = std::string("masked");
  option_of(keys, "min_mask_ratio").default_value = 0.002;
  option_of(keys, "max_mask_ratio").default_value = 0.998;
  keys.push_back(option_i64("curriculum", 0, 0, int64_t{1} << 40,
                            "Updates in which the mask ratios open from 0.15 to 0.85 to their "
                            "limits; 0: open from the start."));
  keys.push_back(option_f64("min_snr_gamma", 0.0, 0.0, 1e6,
                            "Weighs a row by 1 / its mask ratio, up to this; 0: by nothing."));
  keys.push_back(option_f64("anti_repetition", 0.0, 0.0, 1e6,
                            "Weight of the chance that masked neighbours get the same token where "
                            "their targets differ; costs two more products with the head."));
  keys.push_back(
      option_choice("repetition", "soft", {"soft", "hard"},
                    "Form of anti_repetition. soft: as described there; hard: only neighbours with "
                    "the same likeliest token, weighted by its lead over the second token."));
  return {"open_dllm", "linear", std::move(keys), new_objective<OpenDllm>};
}

} // namespace dllm::noise
