// Latent diffusion over text (LDLM, arXiv 2605.07933). The hidden states h of a language model
// become latents z0 by an encoder, a decoder makes states of noised latents, a reader makes tokens
// of these, and a denoiser predicts z0 from z_t:
//
//   z_t = sqrt(alpha) z0 + sqrt(1 - alpha) e,   h' = decoder(z0 + decoder_noise e')
//   loss = |denoiser(z_t, t) - z0|^2 + states_weight |h' - h|^2 + tokens_weight CE(reader(h'), ids)
//
// Squares are means over the numbers of a vector. The reader's gradient stops at h', and the first
// term's gradient into the encoder comes in over `encoder_warmup` updates. h is normalised by its
// running mean and variance. Times are drawn where the loss grows (latent/adaptive_times.h).
// A row weighs as many times as it has tokens.
//
// With compat = open-dllm the loss is that of dLLM-castlehill: the warm-up scales the whole first
// term, variances are averaged, the batch counts in the statistics before they are used, one coin
// decides for a batch whether it has an own estimate, rows without one skip the denoiser's input
// matrices, and one loss is credited to all times of an update.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/latent/adaptive_times.h"
#include "noise/latent/latent_pass.h"
#include "noise/latent/running_statistics.h"
#include "noise/latent/warm_up.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/row_normals.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace dllm::noise {
namespace {

// Arrays of a prepared batch and of the graph, with an entry for each row.
namespace ldlm_array {
constexpr const char* kKeys = "keys";                 // u8(batch, seq): 1: a token of the text
constexpr const char* kDraw = "time_draw";            // f32(batch): uniform number of the time
constexpr const char* kTime = "t";                    // f32(batch): the time; negative: of the draw
constexpr const char* kNoise = "noise_keys";          // u32(batch, 2)
constexpr const char* kDecoder = "decoder_keys";      // u32(batch, 2)
constexpr const char* kConditioned = "conditioned";   // f32(batch): 1: reads its own estimate
constexpr const char* kGradient = "encoder_gradient"; // f32(batch)
constexpr const char* kGiven = "given";               // u8(batch, seq): 1: a token of the prompt
constexpr const char* kAlpha = "alpha";               // f32(batch), of the time
constexpr const char* kBin = "time_bin";              // i32(batch), of the time
constexpr uint32_t kNoiseUse = 0, kDecoderUse = 1;    // of row_keys
} // namespace ldlm_array

AdaptiveTimes::Settings ldlm_times(const Options& options) {
  AdaptiveTimes::Settings made;
  made.bins = options.i64("time_bins");
  made.decay = options.f64("time_decay");
  made.interval = options.i64("time_interval");
  made.floor = options.f64("time_floor");
  made.uniform = options.f64("time_uniform");
  made.as_castlehill = options.str("compat") == "open-dllm";
  return made;
}

class Ldlm final : public Objective {
public:
  Ldlm(ScheduleRef schedule, const Options& options)
      : Objective(std::move(schedule), options), times_(ldlm_times(options_)),
        as_castlehill_(options_.str("compat") == "open-dllm") {
    if (!as_castlehill_ || options_.f64("prompt") == 0) return;
    fail_with_hint("leave out one of them", Code::invalid_argument,
                   "compat open-dllm has no prompts, and prompt is {}", options_.f64("prompt"));
  }
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  bool keeps_schedule() const override { return true; }
  int shift(const model::ModelConfig&) const override { return 0; }
  std::vector<std::string> other_parts() const override { return latent_parts(); }
  std::vector<std::string> trained_parts() const override {
    std::vector<std::string> parts = latent_parts();
    if (options_.boolean("train_base")) parts.insert(parts.begin(), model::kBasePart);
    return parts;
  }
  std::map<std::string, Json> new_parts(const model::ModelConfig& base) const override {
    return latent_configs(options_, base);
  }
  StateArrays first_state() const override;
  StateArrays next_state(const StateArrays& state, const Observed& observed) const override;
  Batch with_state(Batch feed, const StateArrays& state) const override;
  Json describe() const override;

protected:
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;
  std::vector<std::string> prepared_arrays() const override {
    using namespace ldlm_array;
    std::vector<std::string> names = {kKeys,    kDraw,        kTime,    kNoise,
                                      kDecoder, kConditioned, kGradient};
    if (has_prompts()) names.push_back(kGiven);
    return names;
  }
  std::vector<std::string> raw_arrays() const override { return {"positions", "t"}; }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  bool has_prompts() const { return options_.f64("prompt") > 0; }
  void count_tokens(const TokenRows& rows, int64_t first, TokenCeArrays& made, Tensor& keys) const;
  void fill_given(const TokenRows& rows, int64_t row, Key key, std::span<uint8_t> given) const;
  graph::Value statistics(const LossInputs& inputs, graph::Value states, graph::Value keys) const;
  void check_rows(model::Builder& builder, int64_t seq) const;
  LatentPassInputs pass_inputs(model::Builder& builder, const LossInputs& inputs,
                               graph::Value found) const;
  LatentPrompt prompt_of(model::Builder& builder, const LossInputs& inputs) const;
  void add_terms(Loss& loss, const LossInputs& inputs, const LatentPass& pass) const;
  void observe(Loss& loss, const LossInputs& inputs, const LatentPass& pass,
               graph::Value states) const;

  std::string name_ = "ldlm";
  AdaptiveTimes times_;
  bool as_castlehill_;
};

Json Ldlm::describe() const {
  Json made = Objective::describe();
  made["reads"] = {{latent_part::kEncoder, {model::kBasePart}},
                   {latent_part::kDecoder, {latent_part::kEncoder}},
                   {latent_part::kReader, {latent_part::kDecoder}},
                   {latent_part::kDenoiser, Json::array({latent_part::kEncoder})}};
  if (has_prompts()) made["reads"][latent_part::kDenoiser].push_back(model::kBasePart);
  if (as_castlehill_) {
    made["quirks"] = {"the warm-up weighs the whole diffusion loss",
                      "variances are averaged without the distance of their means",
                      "the statistics count a batch before they norm it",
                      "one coin per batch decides about an own estimate",
                      "one loss is credited to all times of an update"};
  }
  return made;
}

StateArrays Ldlm::first_state() const {
  StateArrays state = {{"statistics", to_array({})}};
  times_.add_first(state);
  return state;
}

StateArrays Ldlm::next_state(const StateArrays& state, const Observed& observed) const {
  StateArrays next = state;
  const Tensor& before = state.at("statistics");
  const std::vector<double>& sums = observed.at("states");
  const double center = before.as<float>()[1]; // as the graph read it
  next["statistics"] = to_array(
      merged(running_statistics(before), {sums[0], sums[1], sums[2], center}, as_castlehill_));
  std::vector<double> losses = observed.at("time_losses");
  const std::vector<double>& rows = observed.at("time_rows");
  AdaptiveTimes::Seen seen{losses, rows, 0};
  if (as_castlehill_) {
    const double count = std::accumulate(rows.begin(), rows.end(), 0.0);
    if (count > 0) seen.largest = std::accumulate(losses.begin(), losses.end(), 0.0) / count;
    for (size_t i = 0; i < losses.size(); ++i) losses[i] = seen.largest * rows[i];
  }
  times_.add_next(next, seen);
  return next;
}

// Gives every row its time, which follows the losses so far, its share of the signal and its bin.
Batch Ldlm::with_state(Batch feed, const StateArrays& state) const {
  using namespace ldlm_array;
  const Tensor draws = feed.at(kDraw), given = feed.at(kTime);
  const int64_t rows = draws.count();
  Tensor times(DType::f32, {rows}), alphas(DType::f32, {rows}), bins(DType::i32, {rows});
  for (size_t b = 0; b < static_cast<size_t>(rows); ++b) {
    const float chosen = given.as<float>()[b];
    const double t =
        chosen >= 0 ? chosen : times_.time(state.at("time_shares"), draws.as<float>()[b]);
    times.mutable_as<float>()[b] = static_cast<float>(t);
    alphas.mutable_as<float>()[b] = static_cast<float>(std::clamp(schedule_->alpha(t), 0.0, 1.0));
    bins.mutable_as<int32_t>()[b] = static_cast<int32_t>(bin_of_time(t, times_.settings().bins));
  }
  feed.remove(kDraw);
  feed.set(kTime, times);
  feed.set(kAlpha, alphas);
  feed.set(kBin, bins);
  return Objective::with_state(std::move(feed), state);
}

// Marks the tokens of the prompt of a row: those that the data gives, else in a share of the rows a
// beginning, or tokens anywhere. Some rows lose their prompt again, so that the denoiser learns to
// work without one (classifier-free guidance).
void Ldlm::fill_given(const TokenRows& rows, int64_t row, Key key, std::span<uint8_t> given) const {
  const auto uniform = [&](uint64_t i) { return uniform_from_bits(random_bits_at(key, i)); };
  std::vector<size_t> text;
  int64_t kept = 0;
  for (int64_t i = row * rows.seq; i < (row + 1) * rows.seq; ++i) {
    const auto at = static_cast<size_t>(i);
    if (!rows.segments.empty() && rows.segments[at] == 0) continue;
    text.push_back(at - static_cast<size_t>(row * rows.seq));
    kept += rows.keep.empty() ? 0 : rows.keep[at];
  }
  if (uniform(0) < options_.f64("unconditional") || text.empty()) return;
  if (kept > 0) {
    for (const size_t i : text) given[i] = rows.keep[static_cast<size_t>(row * rows.seq) + i];
    return;
  }
  if (uniform(1) >= options_.f64("prompt")) return;
  const bool holes = uniform(2) < options_.f64("holes");
  const double share = uniform(3);
  for (size_t i = 0; i < text.size(); ++i) {
    const double place = static_cast<double>(i) / static_cast<double>(text.size());
    given[text[i]] = (holes ? uniform(4 + i) : place) < share ? 1 : 0;
  }
}

// Counts the tokens of the texts: keys, targets, weights and the normalizer. A row with several
// texts is refused.
void Ldlm::count_tokens(const TokenRows& rows, int64_t first, TokenCeArrays& made,
                        Tensor& keys) const {
  for (int64_t i = 0; i < rows.batch * rows.seq; ++i) {
    const auto at = static_cast<size_t>(i), row = static_cast<size_t>(i / rows.seq);
    if (!rows.segments.empty() && rows.segments[at] == 0) continue;
    if (!rows.segments.empty() && rows.segments[at] > 1) {
      fail_with_hint("set the loader option pack to false", Code::invalid_argument,
                     "row {} holds several texts, and the latents of ldlm are those of one",
                     first + i / rows.seq);
    }
    keys.mutable_as<uint8_t>()[at] = 1;
    made.normalizer.mutable_as<float>()[row] += 1;
    if (!rows.trainable(i)) continue; // a token of the prompt is known
    made.targets.mutable_as<int32_t>()[at] = rows.ids[at];
    made.weights.mutable_as<float>()[at] = 1;
  }
}

Batch Ldlm::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                         const PrepareContext& context) const {
  using namespace ldlm_array;
  const TokenRows rows = token_rows(batch, context.vocab, false);
  const int64_t first = batch.global_rows(rows.batch).first;
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  Tensor keys(DType::u8, {rows.batch, rows.seq}), given(DType::u8, {rows.batch, rows.seq});
  count_tokens(rows, first, made, keys);
  std::vector<float> draws, coins;
  const auto width = static_cast<size_t>(rows.seq);
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto of_row = [&](Stream stream, int64_t number) {
      return stream_key(seed, stream, static_cast<uint64_t>(step), static_cast<uint64_t>(number));
    };
    const Key key = of_row(Stream::time, first + b), drawn = of_row(Stream::mask, first + b);
    draws.push_back(uniform_from_bits(random_bits_at(key, 0)));
    const Key coin = as_castlehill_ ? of_row(Stream::time, 0) : key;
    coins.push_back(uniform_from_bits(random_bits_at(coin, 1)));
    if (!has_prompts()) continue;
    fill_given(rows, b, fold_in(drawn, 2),
               given.mutable_as<uint8_t>().subspan(static_cast<size_t>(b) * width, width));
  }
  inject_draws(batch, "u_t", draws);
  inject_draws(batch, "u_conditioned", coins);
  std::vector<float> times(draws.size(), -1.0f); // of the draw and the losses so far
  if (context.held_out) times = draws;           // held-out losses stay comparable
  inject_draws(batch, "t", times);
  if (batch.has("t")) draws = times;
  for (float& coin : coins) coin = coin < options_.f64("self_condition") ? 1.0f : 0.0f;
  const double gradient = warm_up(context.held_out ? INT64_MAX : step,
                                  options_.i64("encoder_warmup"), options_.f64("encoder_gradient"));
  const std::vector<float> gradients(draws.size(), static_cast<float>(gradient));
  std::ranges::copy(times, made.t.mutable_as<float>().begin());
  Batch prepared = made.added_to(batch);
  for (const char* name : {"keep", "labels", "segments"}) prepared.remove(name);
  prepared.set(kKeys, keys);
  prepared.set(kDraw, Tensor::from(Shape{rows.batch}, draws));
  prepared.set(kNoise, row_keys(seed, step, first, rows.batch, kNoiseUse));
  prepared.set(kDecoder, row_keys(seed, step, first, rows.batch, kDecoderUse));
  prepared.set(kConditioned, Tensor::from(Shape{rows.batch}, coins));
  prepared.set(kGradient, Tensor::from(Shape{rows.batch}, gradients));
  if (has_prompts()) prepared.set(kGiven, given);
  return prepared;
}

Batch Ldlm::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  using namespace ldlm_array;
  Batch made = Objective::feed_rows(prepared, config);
  const Shape shape = made.at("ids").shape();
  const auto take = [&](const char* name, DType dtype, const Shape& wanted) {
    const Tensor& array = prepared.at(name);
    if (array.shape() != wanted || (dtype == DType::u32 && array.dtype() != DType::u32)) {
      fail(Code::invalid_argument, "array {} is {}{}, expected {}{}", name,
           dtype_name(array.dtype()), array.shape().text(), dtype_name(dtype), wanted.text());
    }
    made.set(name, array.to(dtype));
  };
  for (const char* name : {kDraw, kTime, kConditioned, kGradient})
    take(name, DType::f32, {shape[0]});
  for (const char* name : {kNoise, kDecoder}) take(name, DType::u32, {shape[0], 2});
  take(kKeys, DType::u8, shape);
  if (has_prompts()) take(kGiven, DType::u8, shape);
  return made;
}

// Returns count, mean and variance f32(3) that norm the states.
graph::Value Ldlm::statistics(const LossInputs& inputs, graph::Value states,
                              graph::Value keys) const {
  const graph::Value kept =
      graph::reshape(graph::slice_axis(inputs.all.at("state:statistics"), 0, 0, 1), {3});
  if (!as_castlehill_) return kept;
  graph::Graph& graph = *states.graph;
  const auto total = [&](graph::Value x) { return graph::sum(x, {0, 1, 2}); };
  const graph::Value counted = graph::multiply(states, keys);
  const graph::Value width = graph::scalar(graph, static_cast<float>(states.dim(2)));
  return merged_mean_of_variances(kept, graph::multiply(total(keys), width), total(counted),
                                  total(graph::multiply(counted, states)));
}

// Returns what the denoiser sees of the prompt, from a second pass of the base.
LatentPrompt Ldlm::prompt_of(model::Builder& builder, const LossInputs& inputs) const {
  if (!reads_prompt(builder)) {
    if (!has_prompts()) return {};
    fail_with_hint("set prompt to 0, or let the trainer make the denoiser anew",
                   Code::failed_precondition, "the denoiser of the model reads no prompt");
  }
  const auto found = inputs.all.find(ldlm_array::kGiven);
  const graph::Value given =
      found != inputs.all.end()
          ? found->second
          : graph::convert(graph::full(builder.graph(), inputs.tokens.ids.shape(), 0.0f),
                           DType::u8);
  return latent_prompt(builder, inputs.tokens, given, options_.i64("encoder_layer"));
}

// Fails where the mesh or the rows do not fit the model.
void Ldlm::check_rows(model::Builder& builder, int64_t seq) const {
  if (builder.sequence_ranks() > 1) {
    fail_with_hint("leave axis sequence out of the mesh", Code::unimplemented,
                   "objective ldlm does not cut positions over ranks");
  }
  const int64_t positions = latent_positions(builder);
  if (seq <= positions || as_castlehill_) return;
  fail_with_hint(fmt::format("set the loader option length to {}, or begin with the option "
                             "positions = {}",
                             positions, seq),
                 Code::invalid_argument, "rows have {} tokens, and the decoder makes {}", seq,
                 positions);
}

// Returns what the networks read. `found` are the states of the base.
LatentPassInputs Ldlm::pass_inputs(model::Builder& builder, const LossInputs& inputs,
                                   graph::Value found) const {
  using namespace ldlm_array;
  const graph::Value still = graph::stop_gradient(found);
  const graph::Value keys = graph::reshape(graph::convert(inputs.all.at(kKeys), DType::f32),
                                           {found.dim(0), found.dim(1), 1});
  const graph::Value counted = statistics(inputs, still, keys);
  const LatentShape shape = latent_shape(builder);
  const Shape noise{found.dim(0), shape.latents, shape.size};
  const auto spread = static_cast<float>(options_.f64("decoder_noise"));
  LatentPassInputs pass;
  pass.target = normed_states(still, counted, keys);
  pass.context = options_.boolean("train_base") ? normed_states(found, counted, keys) : pass.target;
  if (!as_castlehill_) pass.context = placed_states(pass.context);
  pass.keys = inputs.all.at(kKeys);
  pass.decoder_noise = graph::multiply(row_normals(inputs.all.at(kDecoder), noise),
                                       graph::scalar(builder.graph(), spread));
  pass.noise = row_normals(inputs.all.at(kNoise), noise);
  pass.levels = inputs.all.at(kTime);
  pass.alpha = inputs.all.at(kAlpha);
  pass.conditioned = inputs.all.at(kConditioned);
  if (!as_castlehill_) pass.encoder_gradient = inputs.all.at(kGradient);
  pass.prompt = prompt_of(builder, inputs);
  pass.conditions = options_.f64("self_condition") > 0;
  pass.skips_projection = as_castlehill_;
  return pass;
}

Loss Ldlm::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  const int64_t seq = inputs.tokens.ids.dim(1);
  check_rows(builder, seq);
  const graph::Value found = base_states(builder, inputs.tokens, options_.i64("encoder_layer"));
  const LatentPass made = latent_pass(builder, pass_inputs(builder, inputs, found));

  Loss loss;
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  const int64_t common = std::min(seq, made.read.dim(1));
  const graph::Value rows =
      graph::pad(graph::slice_axis(made.read, 1, 0, common), {0, 0, 0}, {0, seq - common, 0},
                 graph::scalar(builder.graph(), 0.0f)); // (batch, seq, width)
  const graph::Value nll = graph::multiply(
      model::cross_entropy(
          reader_head(builder),
          graph::take(graph::reshape(rows, {rows.dim(0) * seq, rows.dim(2)}), inputs.head_rows),
          inputs.head_targets, inputs.head_count),
      inputs.head_weights);
  const auto weight = static_cast<float>(options_.f64("tokens_weight"));
  loss.sum = graph::multiply(graph::sum(nll, {0}), graph::scalar(builder.graph(), weight));
  loss.parts.push_back(
      {"token_nll", graph::sum(nll, {0}), graph::convert(inputs.head_count, DType::f32)});
  add_terms(loss, inputs, made);
  observe(loss, inputs, made, graph::stop_gradient(found));
  return loss;
}

// Adds the squared errors, and the figures of a latent model.
void Ldlm::add_terms(Loss& loss, const LossInputs& inputs, const LatentPass& pass) const {
  using namespace ldlm_array;
  graph::Graph& graph = *pass.latents.graph;
  const int64_t common = pass.states.dim(1);
  const graph::Value keys =
      graph::slice_axis(graph::convert(inputs.all.at(kKeys), DType::f32), 1, 0, common);
  const graph::Value states = graph::sum(graph::multiply(pass.states, keys), {0, 1});
  const graph::Value gradient = inputs.all.at(kGradient);
  const graph::Value weight =
      as_castlehill_ ? graph::multiply(inputs.normalizer, gradient) : inputs.normalizer;
  loss.sum = graph::add(loss.sum, graph::sum(graph::multiply(pass.diffusion, weight), {0}));
  loss.sum = graph::add(
      loss.sum,
      graph::multiply(states,
                      graph::scalar(graph, static_cast<float>(options_.f64("states_weight")))));
  loss.parts.push_back({"states", states, graph::sum(keys, {0, 1})});
  // 1 for rows with a text.
  const graph::Value used = graph::minimum(inputs.normalizer, graph::scalar(graph, 1.0f));
  const graph::Value count = graph::sum(used, {0});
  const auto report = [&](const char* name, graph::Value of_rows) {
    loss.parts.push_back(
        {name, graph::sum(graph::multiply(graph::stop_gradient(of_rows), used), {0}), count});
  };
  report("diffusion", pass.diffusion);
  for (const LatentFigure& figure : latent_figures(pass)) report(figure.name, figure.of_rows);
  report("time", inputs.all.at(kTime));
  report("encoder_gradient", gradient);
}

void Ldlm::observe(Loss& loss, const LossInputs& inputs, const LatentPass& pass,
                   graph::Value states) const {
  using namespace ldlm_array;
  graph::Graph& graph = *states.graph;
  const graph::Value keys = graph::convert(inputs.all.at(kKeys), DType::f32);
  const graph::Value center =
      graph::reshape(graph::slice(inputs.all.at("state:statistics"), {0, 1}, {1, 2}), {});
  const graph::Value apart = graph::multiply(graph::subtract(states, center),
                                             graph::reshape(keys, {keys.dim(0), keys.dim(1), 1}));
  const graph::Value count = graph::multiply(
      graph::sum(keys, {0, 1}), graph::scalar(graph, static_cast<float>(states.dim(2))));
  const auto one = [&](graph::Value x) { return graph::reshape(x, {1}); };
  loss.observed.push_back(
      {"states", graph::concat({one(count), one(graph::sum(apart, {0, 1, 2})),
                                one(graph::sum(graph::multiply(apart, apart), {0, 1, 2}))},
                               0)});
  const int64_t rows = keys.dim(0), bins = times_.settings().bins;
  const graph::Value used =
      graph::reshape(graph::minimum(inputs.normalizer, graph::scalar(graph, 1.0f)), {rows, 1});
  const graph::Value in_bin =
      graph::multiply(graph::convert(graph::equal(graph::reshape(inputs.all.at(kBin), {rows, 1}),
                                                  graph::iota(graph, {rows, bins}, DType::i32, 1)),
                                     DType::f32),
                      used);
  const graph::Value losses = graph::multiply(in_bin, graph::reshape(pass.diffusion, {rows, 1}));
  loss.observed.push_back({"time_losses", graph::stop_gradient(graph::sum(losses, {0}))});
  loss.observed.push_back({"time_rows", graph::sum(in_bin, {0})});
}

std::vector<OptionSpec> ldlm_options() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& row : latent_size_options()) keys.push_back(std::move(row));
  std::vector<OptionSpec> own = {
      option_i64("encoder_layer", -3, -4096, 4096,
                 "Layer of the base whose states are encoded; 0: the embedding, negative: from the "
                 "end, -1: after the last norm."),
      option_f64("decoder_noise", 3.0, 0.0, 1e3,
                 "Standard deviation of the noise on the latents that the decoder reads."),
      option_f64("states_weight", 1.0, 0.0, 1e3, "Weight of the error of the decoded states."),
      option_f64("tokens_weight", 1.0, 0.0, 1e3, "Weight of the cross entropy of the reader."),
      option_f64("self_condition", 0.5, 0.0, 1.0,
                 "Share of rows whose denoiser reads an own estimate."),
      option_i64("encoder_warmup", 50000, 0, int64_t{1} << 40,
                 "Updates until the whole gradient of the denoiser reaches the encoder."),
      option_f64("encoder_gradient", 0.001, 0.0, 1.0,
                 "Part of this gradient that reaches the encoder at the first update."),
      option_i64("time_bins", 100, 1, 1 << 16, "Bins of times, whose losses are averaged."),
      option_f64("time_decay", 0.999, 0.0, 0.9999999,
                 "Weight of the old average of a bin at an update."),
      option_i64("time_interval", 5000, 1, int64_t{1} << 24,
                 "Updates between two changes of how often bins are drawn."),
      option_f64("time_floor", 1e-6, 1e-12, 1.0, "Least rise of the loss over a bin."),
      option_f64("time_uniform", 0.1, 0.0, 1.0, "Part of the times that stays uniform."),
      option_f64("prompt", 0.0, 0.0, 1.0,
                 "Share of rows without a prompt of the data that get a random one; 0: the model "
                 "reads no prompts."),
      option_f64("holes", 0.5, 0.0, 1.0,
                 "Share of random prompts that are tokens anywhere, and not a beginning."),
      option_f64("unconditional", 0.1, 0.0, 1.0, "Share of rows that lose their prompt."),
      option_bool("train_base", false, "Trains the base, too; false: it stays as it is."),
  };
  for (OptionSpec& row : own) keys.push_back(std::move(row));
  return keys;
}

} // namespace

ObjectiveEntry objective_files::ldlm() {
  return {"ldlm",
          "tangent",
          ldlm_options(),
          new_objective<Ldlm>,
          {.rows = RowKind::vectors,
           .packs = false,
           .shift = 0,
           .model = "causal",
           .positions = "positions",
           .policy = "latent",
           .sample = R"({"policy": "latent", "steps": 16})"}};
}

} // namespace dllm::noise
