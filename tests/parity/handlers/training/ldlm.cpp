// castlehill/ldlm: training steps of latent diffusion from given hidden states and draws, with
// their gradients; single modules; the sampler of times and the warm-up.

#include "graph/ops.h"
#include "handlers.h"
#include "ldlm_model.h"
#include "noise/latent/adaptive_times.h"
#include "noise/latent/latent_pass.h"
#include "noise/latent/running_statistics.h"
#include "noise/latent/warm_up.h"
#include "noise/loss/evaluate.h"
#include "noise/schedules/schedule.h"
#include "runtime/programs.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {
namespace {

// What a training step makes, as values of a graph.
struct StepValues {
  graph::Value normed, logits, diffusion, states, tokens, loss;
  noise::LatentPass pass;
};

// Weights of the loss: of the whole, of the states, of the tokens.
struct StepWeights {
  float diffusion = 1, states = 1, tokens = 1;
  bool self_conditioned = false;
};

StepValues step_values(model::Builder& builder, const std::map<std::string, graph::Value>& arrays,
                       const StepWeights& weights) {
  graph::Graph& graph = builder.graph();
  const auto number = [&](float x) { return graph::scalar(graph, x); };
  const graph::Value h = arrays.at("h");
  const graph::Value keys = graph::full(graph, {h.dim(0), h.dim(1), 1}, 1.0f);
  const graph::Value statistics = noise::merged_mean_of_variances(
      arrays.at("before"), number(static_cast<float>(h.shape().count())), graph::sum(h, {0, 1, 2}),
      graph::sum(graph::multiply(h, h), {0, 1, 2}));
  StepValues made;
  made.normed = noise::normed_states(h, statistics, keys);
  noise::LatentPassInputs pass;
  pass.target = pass.context = made.normed;
  pass.decoder_noise = arrays.at("dec_noise");
  pass.noise = arrays.at("diff_noise");
  pass.levels = arrays.at("t");
  pass.alpha = arrays.at("alpha");
  pass.conditioned = graph::full(graph, {h.dim(0)}, weights.self_conditioned ? 1.0f : 0.0f);
  pass.conditions = weights.self_conditioned;
  pass.skips_projection = true;
  made.pass = noise::latent_pass(builder, pass);
  made.logits = model::product(noise::reader_head(builder), made.pass.read);
  made.diffusion = graph::mean(made.pass.diffusion, {0});
  made.states = graph::mean(made.pass.states, {0, 1});
  const graph::Value flat = graph::reshape(
      made.pass.read, {made.pass.read.dim(0) * made.pass.read.dim(1), made.pass.read.dim(2)});
  const graph::Value count = graph::convert(arrays.at("head_count"), DType::f32);
  made.tokens = graph::divide(
      graph::sum(model::cross_entropy(noise::reader_head(builder),
                                      graph::take(flat, arrays.at("head_rows")),
                                      arrays.at("head_targets"), arrays.at("head_count")),
                 {0}),
      count);
  made.loss = graph::add(graph::multiply(made.diffusion, number(weights.diffusion)),
                         graph::add(graph::multiply(made.states, number(weights.states)),
                                    graph::multiply(made.tokens, number(weights.tokens))));
  return made;
}

// The loss of a case, for its gradients.
class CaseLoss final : public noise::Objective {
public:
  CaseLoss(const noise::ObjectiveRef& plain, const StepWeights& weights)
      : Objective(plain->schedule(), plain->options()), plain_(plain), weights_(weights) {}
  const std::string& name() const override { return plain_->name(); }
  bool needs_mask_id() const override { return false; }
  std::vector<std::string> other_parts() const override { return plain_->other_parts(); }
  std::vector<std::string> trained_parts() const override { return plain_->trained_parts(); }

protected:
  Batch prepare_rows(const Batch& batch, uint64_t, int64_t,
                     const noise::PrepareContext&) const override {
    return batch;
  }
  Batch feed_rows(const Batch& prepared, const model::ModelConfig&) const override {
    return prepared;
  }
  noise::Loss build_loss(model::Builder& builder, const noise::LossInputs& inputs) const override {
    noise::Loss loss;
    loss.sum = step_values(builder, inputs.all, weights_).loss;
    loss.normalizer = graph::scalar(builder.graph(), 1.0f);
    return loss;
  }

private:
  noise::ObjectiveRef plain_;
  StepWeights weights_;
};

using Results = std::map<std::string, Tensor>;

// Runs a graph over the parts of the model, and returns its results by name.
Results run_graph(const model::Model& model, const Batch& feed,
                  const std::function<std::map<std::string, graph::Value>(
                      model::Builder&, const std::map<std::string, graph::Value>&)>& build) {
  const auto graph = std::make_shared<graph::Graph>("ldlm");
  const model::PartList parts = model.reading(noise::latent_parts());
  model::Builder builder(*graph, model, parts);
  const auto values = build(builder, runtime::feed_inputs(*graph, feed));
  for (const auto& [name, value] : values) graph->output(name, value);
  runtime::Arguments arguments(model.engine().compile(graph));
  arguments.share_parameters(model.params().snapshot(parts));
  arguments.upload(model.engine(), feed);
  const auto outputs = arguments.run();
  Results results;
  size_t at = 0;
  for (const auto& [name, value] : values) results[name] = outputs[at++]->read().clone();
  return results;
}

noise::ScheduleRef schedule_of(const Json& entry) {
  Options options(noise::schedule_schema("tangent"));
  options.set_str("compat", "open-dllm");
  options.set_f64("steepness", entry.at("settings").at("tangent_d"));
  return noise::make_schedule("tangent", options);
}

noise::RunningStatistics statistics_of(const Json& numbers) {
  return {numbers.at("count"), numbers.at("mean"), numbers.at("var")};
}

// The arrays of a step. A label of -100 is not counted, nor a token that the decoder does not make.
Batch feed_of(Case& c, const Json& entry, int64_t positions) {
  const Tensor& ids = c.array("input_ids");
  const int64_t batch = ids.shape()[0], seq = ids.shape()[1];
  std::vector<int32_t> rows, targets, clean(static_cast<size_t>(ids.count()));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = static_cast<size_t>(b * seq + i);
      clean[at] = std::max(ids.as<int32_t>()[at], 0);
      if (i >= positions || ids.as<int32_t>()[at] < 0) continue;
      rows.push_back(static_cast<int32_t>(b * positions + i));
      targets.push_back(clean[at]);
    }
  }
  const Tensor& t = c.array("t");
  std::vector<float> alpha;
  for (const float time : t.as<float>())
    alpha.push_back(static_cast<float>(schedule_of(entry)->alpha(time)));
  const noise::RunningStatistics before = statistics_of(entry.at("before"));
  const auto count = static_cast<int64_t>(rows.size());
  Batch feed;
  feed.set("ids", Tensor::from(Shape{batch, seq}, clean));
  for (const char* name : {"h", "dec_noise", "diff_noise", "t"}) feed.set(name, c.array(name));
  feed.set("alpha", Tensor::from(Shape{batch}, alpha));
  feed.set("before", noise::to_array(before).row(0).clone());
  feed.set("head_rows", Tensor::from(Shape{count}, rows));
  feed.set("head_targets", Tensor::from(Shape{count}, targets));
  feed.set("head_count", Tensor::scalar(static_cast<int32_t>(count)));
  return feed;
}

void check_statistics(Case& c, const Json& entry, Tolerance tolerance) {
  noise::CenteredSums sums;
  for (const float x : c.array("h").as<float>()) {
    sums.count += 1;
    sums.first += x;
    sums.second += static_cast<double>(x) * x;
  }
  const noise::RunningStatistics made =
      noise::merged(statistics_of(entry.at("before")), sums, true);
  const noise::RunningStatistics wanted = statistics_of(entry.at("after"));
  c.close(tolerance, made.mean, wanted.mean, "mean");
  c.close(tolerance, made.variance, wanted.variance, "variance");
  c.close({}, made.count, wanted.count, "count");
}

// Compares the norm of every tensor of the reference, and the gradients that the case holds.
void check_gradients(Case& c, const Json& entry, const noise::LossGradients& got,
                     Tolerance tolerance) {
  std::map<std::string, double> squares;
  for (const auto& [name, gradient] : got.gradients) {
    const ReferencePart where = reference_part(name);
    for (const float x : gradient.as<float>()) squares[where.name] += static_cast<double>(x) * x;
    if (!c.has("grad." + where.name)) continue;
    const Tensor wanted = part_of(where, c.array("grad." + where.name), gradient.shape());
    c.close(tolerance, gradient, wanted, "gradient of " + name);
  }
  const Json& norms = entry.at("gradient_norms");
  for (const auto& [name, sum] : squares)
    c.close(tolerance, std::sqrt(sum), norms.value(name, 0.0), "gradient norm of " + name);
  for (const auto& [name, norm] : norms.items())
    c.check(squares.contains(name), "a gradient of " + name);
}

void run_step(Case& c, const Json& entry) {
  const Tolerance tolerance = c.topic().tolerance(entry);
  const auto model = ldlm_model(c, entry);
  const int64_t positions = model->parts().find("decoder")->config.tower.latents;
  const Batch feed = feed_of(c, entry, positions);
  const Json& settings = entry.at("settings");
  const double weight =
      noise::warm_up(entry.at("step"), entry.at("warmup_steps"), settings.at("warmup_gamma_min"));
  c.close(tolerance, weight, entry.at("diff_weight").get<double>(), "diff_weight");
  c.close(tolerance, feed.at("alpha"), c.array("alpha_bar"), "alpha_bar");
  check_statistics(c, entry, tolerance);
  const StepWeights weights{static_cast<float>(weight), settings.at("recon_h_weight"),
                            settings.at("recon_token_weight"), entry.at("self_conditioned")};
  const bool conditioned = weights.self_conditioned;
  const Results got = run_graph(*model, feed, [&](model::Builder& builder, const auto& arrays) {
    const StepValues made = step_values(builder, arrays, weights);
    std::map<std::string, graph::Value> values = {
        {"h_normalised", made.normed},     {"z0", made.pass.latents},
        {"h_hat", made.pass.decoded},      {"logits", made.logits},
        {"z_t", made.pass.noised},         {"pred", made.pass.predicted},
        {"loss_diff", made.diffusion},     {"loss_recon_h", made.states},
        {"loss_recon_token", made.tokens}, {"loss", made.loss}};
    if (conditioned) values["z_hat_prev"] = made.pass.previous;
    return values;
  });
  for (const auto& [name, value] : got) {
    const bool is_number = value.count() == 1;
    if (is_number)
      c.close(tolerance, value.as<float>()[0], entry.at(name).get<double>(), name);
    else if (name == "h_normalised" && !c.has(name))
      continue; // of the rows of other lengths
    else
      c.close(tolerance, value, c.array(name), name);
  }
  Options options(noise::objective_schema("ldlm"));
  options.set_str("compat", "open-dllm");
  const CaseLoss loss(noise::make_objective("ldlm", nullptr, options), weights);
  check_gradients(c, entry, noise::loss_gradients(*model, loss, feed), tolerance);
}

void run_modules(Case& c, const Json& entry) {
  const auto model = ldlm_model(c, entry);
  Batch feed;
  for (const char* name : {"context", "z", "t", "z_prev"}) feed.set(name, c.array(name));
  const Results got = run_graph(*model, feed, [](model::Builder& builder, const auto& arrays) {
    const graph::Value z = arrays.at("z");
    const graph::Value decoded = noise::decode_latents(builder, z);
    noise::DenoiserInputs denoising{z, arrays.at("t"), {}, {}, {}};
    const graph::Value none = graph::full(builder.graph(), {z.dim(0), 1, 1}, 0.0f);
    denoising.projects = graph::greater(none, none);
    noise::DenoiserInputs conditioned = denoising;
    conditioned.previous = arrays.at("z_prev");
    conditioned.projects = {};
    return std::map<std::string, graph::Value>{
        {"latent_encoder", noise::encode_states(builder, arrays.at("context"), {})},
        {"h_hat", decoded},
        {"logits",
         model::product(noise::reader_head(builder), noise::read_states(builder, decoded))},
        {"head", noise::denoise(builder, denoising)},
        {"head_selfcond", noise::denoise(builder, conditioned)}};
  });
  for (const auto& [name, value] : got)
    c.close(c.topic().tolerance(entry), value, c.array(name), name);
}

// The averages and shares after every update.
void run_sampler(Case& c, const Json& entry) {
  noise::AdaptiveTimes::Settings settings;
  settings.bins = entry.at("num_bins");
  settings.decay = entry.at("ema_decay");
  settings.floor = entry.at("min_prob");
  settings.interval = entry.at("update_interval");
  settings.as_castlehill = true;
  const noise::AdaptiveTimes times(settings);
  noise::StateArrays state;
  times.add_first(state);
  const Tolerance tolerance = c.topic().tolerance(entry);
  const int64_t updates = entry.at("updates");
  c.equal(updates, c.array("t").shape()[0], "updates");
  for (int64_t update = 0; update < updates; ++update) {
    const Tensor t = c.array("t").row(update), loss = c.array("loss").row(update);
    std::vector<double> losses(static_cast<size_t>(settings.bins)), rows(losses.size());
    for (size_t i = 0; i < static_cast<size_t>(t.count()); ++i) {
      const auto bin = static_cast<size_t>(noise::bin_of_time(t.as<float>()[i], settings.bins));
      losses[bin] += loss.as<float>()[i];
      rows[bin] += 1;
    }
    times.add_next(state, {losses, rows, std::ranges::max(loss.as<float>())});
    c.close(tolerance, state.at("time_losses"), c.array("loss_ema").row(update), "loss_ema");
    c.close(tolerance, state.at("time_shares"), c.array("bin_probs").row(update), "bin_probs");
  }
}

void run_warm_up(Case& c, const Json& entry) {
  for (const Json& value : entry.at("values")) {
    c.close(c.topic().tolerance(entry),
            noise::warm_up(value.at("step"), value.at("warmup_steps"), value.at("gamma_min")),
            value.at("weight").get<double>(), "weight");
  }
}

} // namespace

void run_ldlm(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      const std::string kind = entry.at("kind");
      if (kind == "training_step")
        run_step(c, entry);
      else if (kind == "modules")
        run_modules(c, entry);
      else if (kind == "adaptive_sampler")
        run_sampler(c, entry);
      else if (kind == "warmup")
        run_warm_up(c, entry);
      else
        c.skip("unknown kind " + kind);
    });
  }
}

} // namespace dllm::parity
