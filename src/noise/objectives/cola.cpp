// Latent diffusion over text in blocks (Cola DLM, arXiv 2605.06548). An encoder gives each token a
// latent z = mean + sqrt(variance) e'. A decoder reads tokens from latents. A prior with a noise
// level in every block (DiT) makes the latents of a block from those of the blocks before it:
//
//   z_t = (1 - t) z + t e
//   loss = CE(decoder(z), tokens) + kl_weight KL(z | N(0, 1))
//          + prior_weight mean |prior(z_t, t, z of blocks before) - (e - z)|^2
//          + mask_weight CE(decoder(mean of text with masks), masked tokens)
//
// A row has one time t. The prior computes all blocks in one pass over [noised | clean] latents.
// With kl_weight = 1 the first two terms bound -log p of a text whose latents are N(0, 1). Texts
// are made from the learned prior, whose likelihood is not computed. So the loss bounds nothing.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/latent/cola_networks.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/row_normals.h"
#include "noise/rows/two_stream.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

using graph::Value;

// Arrays of a prepared batch and of the graph, with an entry for each row.
namespace cola_array {
constexpr const char* kTime = "t";                  // f32(batch)
constexpr const char* kNoise = "noise_keys";        // u32(batch, 2)
constexpr const char* kAlone = "without_prefix";    // u8(batch): 1: a block sees no block before
constexpr const char* kMasked = "masked_ids";       // i32(batch, seq), with mask_weight
constexpr const char* kHidden = "masked_weights";   // f32(batch, seq), with mask_weight
constexpr const char* kCounted = "counted";         // f32(batch, seq), of the graph
constexpr const char* kLimit = "prior_limit";       // i32(batch, 2 seq), of the graph
constexpr const char* kPositions = "two_positions"; // i32(batch, 2 seq), of the graph
constexpr const char* kBlock = "latent_block";      // i32(), of the graph
} // namespace cola_array

constexpr uint32_t kPosteriorDraw = 1, kFlowDraw = 2; // of row_normals
constexpr uint32_t kColaRows = 0x636f6c62;

class ColaModel final : public MaskingObjective {
public:
  ColaModel(ScheduleRef schedule, const Options& options)
      : MaskingObjective(std::move(schedule), options) {
    const auto alone = [&](const char* key, bool used, const char* needs) {
      if (used || !options_.is_set(key)) return;
      fail_with_hint(fmt::format("leave {} out, or {}", key, needs), Code::invalid_argument,
                     "{} is set and changes nothing", key);
    };
    alone("mask_share", options_.f64("mask_weight") > 0, "set mask_weight above 0");
    alone("source_layer", options_.str("source") == "states", "set source = states");
    const bool drawn = options_.str("time_draw") == "logit_normal";
    alone("time_mean", drawn, "set time_draw = logit_normal");
    alone("time_std", drawn, "set time_draw = logit_normal");
    if (options_.i64("shift") != 1) return;
    fail_with_hint("leave shift out", Code::invalid_argument,
                   "objective cola reads a token from its own latent: shift must be 0");
  }
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return options_.f64("mask_weight") > 0; }
  int shift(const model::ModelConfig&) const override { return 0; }
  // The states of a base that is not causal must not see later blocks, which are not there when a
  // prompt is encoded.
  model::AttentionKind attention(const model::ModelConfig& config) const override {
    if (options_.str("attention") != "auto") return Objective::attention(config);
    return config.attention == model::AttentionKind::causal ? model::AttentionKind::causal
                                                            : model::AttentionKind::block_causal;
  }
  std::vector<std::string> other_parts() const override { return cola_parts(); }
  std::vector<std::string> trained_parts() const override {
    std::vector<std::string> parts = cola_parts();
    if (trains_base()) parts.insert(parts.begin(), model::kBasePart);
    return parts;
  }
  std::map<std::string, Json> new_parts(const model::ModelConfig& base) const override {
    return cola_configs(options_, base);
  }

protected:
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;
  std::vector<std::string> prepared_arrays() const override {
    using namespace cola_array;
    std::vector<std::string> names = {kTime, kNoise, kAlone};
    if (options_.f64("mask_weight") > 0) names.insert(names.end(), {kMasked, kHidden});
    return names;
  }
  std::vector<std::string> raw_arrays() const override { return {"positions", "keys", "t"}; }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  bool trains_base() const {
    const std::string& wanted = options_.str("train_base");
    return wanted == "auto" ? options_.str("source") == "tokens" : wanted == "true";
  }
  float time_of(double uniform) const;
  void mask_tokens(Batch& made, const TokenRows& rows, uint64_t seed, int64_t step,
                   const PrepareContext& context) const;
  void add_reconstruction(Loss& loss, model::Builder& builder, const LossInputs& inputs,
                          const ColaTokens& rows, Value latents) const;
  void add_flow(Loss& loss, model::Builder& builder, const LossInputs& inputs, Value clean) const;
  void add_masked(Loss& loss, model::Builder& builder, const LossInputs& inputs,
                  const ColaTokens& rows) const;

  std::string name_ = "cola";
};

// Returns the time of a uniform number.
float ColaModel::time_of(double uniform) const {
  if (options_.str("time_draw") == "uniform") return static_cast<float>(uniform);
  const double normal = normal_quantile(uniform);
  return static_cast<float>(
      1 / (1 + std::exp(-(options_.f64("time_mean") + options_.f64("time_std") * normal))));
}

Batch ColaModel::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                              const PrepareContext& context) const {
  const TokenRows rows = token_rows(batch, context.vocab, false);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  Tensor alone(DType::u8, {rows.batch});
  const int64_t first = batch.global_rows(rows.batch).first;
  const double dropped = context.held_out ? 0 : options_.f64("drop_prefix");
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    int64_t counted = 0;
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      if (!rows.trainable(static_cast<int64_t>(at))) continue;
      made.targets.mutable_as<int32_t>()[at] = rows.ids[at];
      made.weights.mutable_as<float>()[at] = 1;
      ++counted;
    }
    made.normalizer.mutable_as<float>()[row] = static_cast<float>(counted);
    const Key key = fold_in(stream_key(seed, Stream::time, static_cast<uint64_t>(step),
                                       static_cast<uint64_t>(first + b)),
                            kColaRows);
    made.t.mutable_as<float>()[row] =
        time_of(static_cast<double>(uniform_from_bits(random_bits_at(key, 0))) + 0x1p-24);
    alone.mutable_as<uint8_t>()[row] = uniform_from_bits(random_bits_at(key, 1)) < dropped ? 1 : 0;
  }
  if (const Tensor* given = batch.find(cola_array::kTime)) {
    if (given->shape() != made.t.shape())
      fail(Code::invalid_argument, "array t has shape {}, expected {}", given->shape().text(),
           made.t.shape().text());
    made.t = given->to(DType::f32);
    check_unit(cola_array::kTime, made.t);
  }
  Batch all = made.added_to(batch);
  all.set(cola_array::kNoise, row_keys(seed, step, first, rows.batch, kColaRows));
  all.set(cola_array::kAlone, alone);
  if (options_.f64("mask_weight") > 0) mask_tokens(all, rows, seed, step, context);
  return all;
}

void ColaModel::mask_tokens(Batch& made, const TokenRows& rows, uint64_t seed, int64_t step,
                            const PrepareContext& context) const {
  const int32_t mask = mask_id(context);
  const int64_t first = made.global_rows(rows.batch).first;
  const std::vector<float> draws = mask_draws(rows.batch, rows.seq, first, seed, step);
  Tensor ids = made.at("ids").to(DType::i32).clone(), weights(DType::f32, ids.shape());
  for (size_t i = 0; i < draws.size(); ++i) {
    if (!rows.trainable(static_cast<int64_t>(i)) || draws[i] >= options_.f64("mask_share"))
      continue;
    ids.mutable_as<int32_t>()[i] = mask;
    weights.mutable_as<float>()[i] = 1;
  }
  made.set(cola_array::kMasked, ids);
  made.set(cola_array::kHidden, weights);
}

// Returns an array of prepared rows, which a caller may have made.
Tensor cola_rows_of(const Batch& prepared, const char* name, DType dtype, const Shape& wanted) {
  const Tensor& array = prepared.at(name);
  if (array.shape() != wanted) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {}", name, array.shape().text(),
         wanted.text());
  }
  check_finite(name, array);
  return array.to(dtype);
}

Batch ColaModel::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  using namespace cola_array;
  Batch made = Objective::feed_rows(prepared, config);
  const Tensor targets = prepared.at("targets").to(DType::i32);
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  PrepareContext context;
  context.block_length = block_length(config);
  const int64_t block = needed_block_length(*this, context);
  Tensor counted(DType::f32, {batch, seq}), limit(DType::i32, {batch, 2 * seq}),
      positions(DType::i32, {batch, 2 * seq});
  const Tensor alone = cola_rows_of(prepared, kAlone, DType::u8, {batch});
  const Tensor* given = made.find("positions");
  for (int64_t i = 0; i < batch * 2 * seq; ++i) {
    const int64_t row = i / (2 * seq), place = i % (2 * seq), token = row * seq + place % seq;
    const bool hides = place < seq && alone.as<uint8_t>()[static_cast<size_t>(row)] != 0;
    limit.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>(hides ? seq : 2 * seq);
    positions.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        given != nullptr ? given->as<int32_t>()[static_cast<size_t>(token)]
                         : static_cast<int32_t>(place % seq);
  }
  for (size_t i = 0; i < targets.as<int32_t>().size(); ++i)
    counted.mutable_as<float>()[i] = targets.as<int32_t>()[i] >= 0 ? 1.0f : 0.0f;
  made.set(kTime, cola_rows_of(prepared, kTime, DType::f32, {batch}));
  made.set(kNoise, cola_rows_of(prepared, kNoise, DType::u32, {batch, 2}));
  made.set(kCounted, counted);
  made.set(kLimit, limit);
  made.set(kPositions, positions);
  made.set(kBlock, Tensor::scalar(static_cast<int32_t>(block)));
  if (options_.f64("mask_weight") == 0) return made;
  const Tensor ids = cola_rows_of(prepared, kMasked, DType::i32, {batch, seq});
  check_between(kMasked, ids, 0, config.vocab_size - 1, "the vocabulary");
  made.set(kMasked, ids);
  made.set(kHidden, cola_rows_of(prepared, kHidden, DType::f32, {batch, seq}));
  return made;
}

// Returns the sum over the counted tokens of a mean over the numbers of their latents.
Value over_counted(const LossInputs& inputs, Value numbers) {
  return graph::sum(graph::multiply(graph::mean(numbers, {2}), inputs.all.at(cola_array::kCounted)),
                    {0, 1});
}

void report(Loss& loss, const char* name, Value sum) {
  loss.parts.push_back({name, graph::stop_gradient(sum), loss.normalizer});
}

void add_weighed(Loss& loss, Value sum, double weight) {
  const Value weighed = graph::multiply(sum, graph::scalar(*sum.graph, static_cast<float>(weight)));
  loss.sum = loss.sum.defined() ? graph::add(loss.sum, weighed) : weighed;
}

graph::Mask block_mask(const ColaTokens& rows) {
  graph::Mask mask = rows.visible;
  mask.terms.push_back({graph::MaskKind::block_causal, {rows.block}});
  return mask;
}

void ColaModel::add_reconstruction(Loss& loss, model::Builder& builder, const LossInputs& inputs,
                                   const ColaTokens& rows, Value latents) const {
  const Value hidden = cola_decode(builder, latents, rows.tokens.positions, block_mask(rows));
  const Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const Value nll = model::cross_entropy(builder.part(cola_part::kDecoder).head(),
                                         graph::take(flat, inputs.head_rows), inputs.head_targets,
                                         inputs.head_count);
  const Value sum = graph::sum(graph::multiply(nll, inputs.head_weights), {0});
  add_weighed(loss, sum, 1);
  report(loss, "reconstruction", sum);
}

void ColaModel::add_flow(Loss& loss, model::Builder& builder, const LossInputs& inputs,
                         Value clean) const {
  using namespace cola_array;
  graph::Graph& graph = builder.graph();
  const auto& all = inputs.all;
  const int64_t batch = clean.dim(0), seq = clean.dim(1);
  const Value noise = row_normals(all.at(kNoise), clean.shape(), kFlowDraw);
  const Value time = all.at(kTime), t = graph::reshape(time, {batch, 1, 1}),
              one = graph::scalar(graph, 1.0f);
  const Value noised =
      graph::add(graph::multiply(graph::subtract(one, t), clean), graph::multiply(t, noise));
  model::ForwardInputs prior;
  prior.positions = all.at(kPositions);
  const Value level = graph::reshape(time, {batch, 1});
  prior.levels = graph::concat({level, graph::multiply(level, graph::scalar(graph, 0.0f))}, 1);
  prior.mask =
      graph::Mask::two_stream(graph::scalar_i32(graph, static_cast<int32_t>(seq)), all.at(kBlock));
  prior.mask.and_key_limit(all.at(kLimit));
  if (const auto found = all.find("segments"); found != all.end()) {
    const Value both = graph::concat({found->second, found->second}, 1);
    prior.mask.and_segments(both, both);
  }
  if (const auto found = all.find("keys"); found != all.end())
    prior.mask.and_key_keep(graph::concat({found->second, found->second}, 1));
  const Value made = graph::slice_axis(
      cola_velocity(builder, prior, graph::concat({noised, clean}, 1)), 1, 0, seq);
  const Value apart = graph::subtract(made, graph::subtract(noise, clean));
  const Value sum = over_counted(inputs, graph::multiply(apart, apart));
  add_weighed(loss, sum, options_.f64("prior_weight"));
  report(loss, "flow", sum);
}

void ColaModel::add_masked(Loss& loss, model::Builder& builder, const LossInputs& inputs,
                           const ColaTokens& rows) const {
  ColaTokens masked = rows;
  masked.tokens.ids = inputs.all.at(cola_array::kMasked);
  const ColaPosterior posterior = cola_encode_tokens(builder, masked, !trains_base());
  const Value hidden =
      cola_decode(builder, posterior.mean, rows.tokens.positions, block_mask(rows));
  const Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const Value nll = model::cross_entropy(builder.part(cola_part::kDecoder).head(),
                                         graph::take(flat, inputs.head_rows), inputs.head_targets,
                                         inputs.head_count);
  const Value hides = inputs.all.at(cola_array::kHidden);
  const Value weights =
      graph::take(graph::reshape(hides, {hides.dim(0) * hides.dim(1)}), inputs.head_rows);
  const Value sum =
      graph::sum(graph::multiply(nll, graph::multiply(weights, inputs.head_weights)), {0});
  add_weighed(loss, sum, options_.f64("mask_weight"));
  loss.parts.push_back({"masked", graph::stop_gradient(sum), graph::sum(hides, {0, 1})});
}

// Returns mean^2 + variance - 1 - log variance: twice the KL divergence from N(0, 1) of a number.
Value twice_kl(const ColaPosterior& posterior) {
  const Value one = graph::scalar(*posterior.mean.graph, 1.0f);
  return graph::subtract(graph::add(graph::multiply(posterior.mean, posterior.mean),
                                    graph::exp(posterior.log_variance)),
                         graph::add(posterior.log_variance, one));
}

Loss ColaModel::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  check_cola_networks(options_, builder);
  graph::Graph& graph = builder.graph();
  ColaTokens rows{inputs.tokens, {}, inputs.all.at(cola_array::kBlock)};
  for (const graph::MaskTerm& term : inputs.tokens.mask.terms) {
    if (term.kind == graph::MaskKind::segments || term.kind == graph::MaskKind::key_keep)
      rows.visible.terms.push_back(term);
  }
  const ColaPosterior posterior = cola_encode_tokens(builder, rows, !trains_base());
  const Value half = graph::scalar(graph, 0.5f);
  const Value deviation = graph::exp(graph::multiply(posterior.log_variance, half));
  const Value latents =
      graph::add(posterior.mean,
                 graph::multiply(deviation, row_normals(inputs.all.at(cola_array::kNoise),
                                                        posterior.mean.shape(), kPosteriorDraw)));
  Loss loss;
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  add_reconstruction(loss, builder, inputs, rows, latents);
  const auto width = static_cast<float>(latents.dim(2));
  const Value kl = graph::multiply(over_counted(inputs, twice_kl(posterior)),
                                   graph::scalar(graph, 0.5f * width));
  add_weighed(loss, kl, options_.f64("kl_weight"));
  report(loss, "kl", kl);
  if (options_.f64("prior_weight") > 0) {
    const bool stops = options_.boolean("stop_latents");
    add_flow(loss, builder, inputs, stops ? graph::stop_gradient(latents) : latents);
  }
  if (options_.f64("mask_weight") > 0) add_masked(loss, builder, inputs, rows);
  report(loss, "latent_square", over_counted(inputs, graph::multiply(latents, latents)));
  return loss;
}

std::vector<OptionSpec> cola_options() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& row : cola_size_options()) keys.push_back(std::move(row));
  std::vector<OptionSpec> own = {
      option_choice("train_base", "auto", {"auto", "true", "false"},
                    "Trains the base, too; auto: with source = tokens, for its embedding."),
      option_f64("kl_weight", 1e-3, 0.0, 1e3,
                 "Weight of the KL divergence of the latents from N(0, 1), in nats per token."),
      option_f64("prior_weight", 1.0, 0.0, 1e3,
                 "Weight of the prior's error; 0: encoder and decoder alone are trained."),
      option_bool("stop_latents", true, "No gradient of the prior's error reaches the latents."),
      option_f64("drop_prefix", 0.1, 0.0, 1.0,
                 "Share of rows whose blocks are predicted without the blocks before, for "
                 "guidance."),
      option_choice("time_draw", "logit_normal", {"logit_normal", "uniform"},
                    "Distribution of the time of a row."),
      option_f64("time_mean", 0.0, -100.0, 100.0, "Mean of the logit of a time."),
      option_f64("time_std", 1.0, 1e-3, 100.0, "Standard deviation of the logit of a time."),
      option_f64(
          "mask_weight", 0.0, 0.0, 1e3,
          "Weight of the loss of masked tokens, which decoder and encoder predict; 0: none."),
      option_f64("mask_share", 0.15, 1e-6, 1.0, "Share of the tokens that are masked for it."),
  };
  for (OptionSpec& row : own) keys.push_back(std::move(row));
  return keys;
}

} // namespace

ObjectiveEntry objective_files::cola() {
  return {"cola",
          "linear",
          cola_options(),
          new_objective<ColaModel>,
          {.rows = RowKind::vectors,
           .shift = 0,
           .policy = "cola",
           .sample = R"({"policy": "cola", "steps": 16})"}};
}

} // namespace dllm::noise
