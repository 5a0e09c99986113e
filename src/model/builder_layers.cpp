// The layers of a forward pass: every run of equal layers is one scan over its parameters.

#include "model/builder.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/families/transformer.h"
#include "model/rope.h"

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

// The body of a scan sees nothing but its inputs: every outer value that it needs becomes a
// constant of the loop.
class BodyConstants {
public:
  explicit BodyConstants(graph::Graph& body) : body_(body) {}

  graph::Value inner(graph::Value outer, const std::string& name) {
    if (!outer.defined()) return {};
    for (size_t i = 0; i < outer_.size(); ++i) {
      if (outer_[i] == outer) return inner_[i];
    }
    outer_.push_back(outer);
    inner_.push_back(body_.input(name, outer.type()));
    return inner_.back();
  }
  graph::Mask inner(const graph::Mask& mask) {
    graph::Mask made = mask;
    made.query_start = inner(mask.query_start, "query_start");
    for (graph::MaskTerm& term : made.terms) {
      for (size_t i = 0; i < term.params.size(); ++i) {
        term.params[i] = inner(term.params[i], std::string(graph::mask_kind_name(term.kind)) + "." +
                                                   std::to_string(i));
      }
    }
    return made;
  }
  const std::vector<graph::Value>& outer() const { return outer_; }

private:
  graph::Graph& body_;
  std::vector<graph::Value> outer_, inner_;
};

// Embedding of the noise level u = t / steps (nano-dlm, src/model.py): sinusoid, then two layers with silu
// between.
graph::Value time_embedding(Builder& builder, graph::Value timesteps) {
  const ModelConfig& config = builder.config();
  const int64_t size = config.hidden_size, half = size / 2;
  Tensor frequencies(DType::f32, {1, half});
  for (int64_t k = 0; k < half; ++k) {
    frequencies.mutable_as<float>()[static_cast<size_t>(k)] = static_cast<float>(
        std::exp(-std::log(10000.0) * static_cast<double>(k) / static_cast<double>(half)));
  }
  graph::Graph& graph = builder.graph();
  const int64_t batch = timesteps.dim(0);
  const graph::Value u =
      graph::divide(timesteps, graph::scalar(graph, static_cast<float>(config.time_steps)));
  const graph::Value angle =
      graph::multiply(graph::reshape(u, {batch, 1}), graph::constant(graph, frequencies));
  std::vector<graph::Value> parts = {graph::sin(angle), graph::cos(angle)};
  if (size % 2 != 0) parts.push_back(graph::full(graph, {batch, 1}, 0.0f));
  const auto layer = [&](graph::Value x, const std::string& name) {
    return product(builder.linear(name), x);
  };
  return layer(graph::silu(layer(graph::concat(parts, 1), "time.in")), "time.out");
}

graph::Value default_positions(graph::Graph& graph, int64_t batch, int64_t seq) {
  return graph::broadcast(graph::iota(graph, {seq}, DType::i32, 0), {batch, seq});
}

} // namespace

// Values of the outer graph.
struct Builder::Beside {
  graph::Value positions, time, inv_freq;
  float amplitude = 1;
  graph::Value inv_freqs;  // f32(layers, rotary / 2) instead of inv_freq, where layers differ
  graph::Value reaches;    // i32(layers): of each layer's window; undefined: no layer has one
  graph::Value first_rows; // i32(layers): of each layer in the cache; undefined: there is none
  graph::Mask mask;
  bool empty_average = false, round_kv = false;
};

namespace {

// A window narrows causal attention. Other kinds see what their mask says, and so does a table that
// a caller drew: Hugging Face's 4-D masks replace the window, and so did every conversion to
// diffusion that we know of.
bool slides(const graph::Mask& mask) {
  const auto has = [&](graph::MaskKind kind) {
    return std::any_of(mask.terms.begin(), mask.terms.end(),
                       [&](const graph::MaskTerm& term) { return term.kind == kind; });
  };
  return has(graph::MaskKind::causal) && !has(graph::MaskKind::dense);
}

constexpr int32_t kAll = int32_t{1} << 30; // a reach that covers every row

Tensor window_reaches(const ModelConfig& config) {
  Tensor reaches(DType::i32, {config.layers});
  for (size_t i = 0; i < config.sliding.size(); ++i) {
    reaches.mutable_as<int32_t>()[i] =
        config.sliding[i] ? static_cast<int32_t>(config.window - 1) : kAll;
  }
  return reaches;
}

// One row of frequencies per layer: `all` where a layer sees everything, its own where it slides.
Tensor layer_frequencies(const ModelConfig& config, const Tensor& all, int64_t seq) {
  ModelConfig local = config;
  local.rope = RopeConfig();
  local.rope.theta = config.sliding_theta;
  local.rope.partial = config.rope.partial;
  const Tensor own = rope_table(local, seq).inv_freq;
  Tensor rows(DType::f32, all.shape().with_front(config.layers));
  float* to = rows.mutable_as<float>().data();
  for (const bool sliding : config.sliding) {
    const Tensor& from = sliding ? own : all;
    to = std::copy(from.as<float>().begin(), from.as<float>().end(), to);
  }
  return rows;
}

} // namespace

Builder::Beside Builder::beside(const ForwardInputs& inputs, graph::Value positions, int64_t seq) {
  Beside made;
  made.positions = positions;
  made.mask = inputs.mask;
  made.empty_average = inputs.empty_average;
  made.round_kv = inputs.round_kv;
  if (inputs.cache.defined()) {
    const auto rows = static_cast<int32_t>(inputs.cache.keys.dim(0) / config_.layers);
    made.first_rows = graph::multiply(graph::iota(graph_, {config_.layers}, DType::i32, 0),
                                      graph::scalar_i32(graph_, rows));
  }
  if (config_.positions == PositionKind::rotary) {
    const RopeTable table = rope_table(config_, seq);
    made.amplitude = table.amplitude;
    if (config_.sliding_theta > 0)
      made.inv_freqs = graph::constant(graph_, layer_frequencies(config_, table.inv_freq, seq));
    else
      made.inv_freq = graph::constant(graph_, table.inv_freq);
  }
  if (!config_.sliding.empty() && (inputs.slides.defined() || slides(inputs.mask)))
    made.reaches = graph::constant(graph_, window_reaches(config_));
  if (made.reaches.defined() && inputs.slides.defined()) {
    const graph::Value off = graph::subtract(graph::scalar_i32(graph_, 1), inputs.slides);
    made.reaches =
        graph::maximum(made.reaches, graph::multiply(off, graph::scalar_i32(graph_, kAll)));
  }
  if (config_.time_conditioning) {
    if (!inputs.timesteps.defined()) {
      fail(Code::invalid_argument,
           "the model is conditioned on time: timesteps (batch) are needed");
    }
    made.time = time_embedding(*this, inputs.timesteps);
  }
  return made;
}

graph::ScanResult Builder::run_layers(const LayerRun& run, const Beside& beside,
                                      graph::Value hidden, KvCache& cache, bool taps) {
  const auto body = std::make_shared<graph::Graph>("layer");
  const graph::Value carry = body->input("hidden", hidden.type());
  LayerInputs layer{
      config_,         {}, {}, {}, beside.amplitude, {}, beside.empty_average, nullptr,
      beside.round_kv, {}, {}, {}};
  KvCache inner = cache; // in the body
  std::vector<graph::Value> carries = {hidden};
  if (cache.defined()) {
    layer.cache = &inner;
    for (graph::Value* kept : {&inner.keys, &inner.values}) {
      carries.push_back(*kept);
      *kept = body->input(kept == &inner.keys ? "keys" : "values", kept->type());
    }
  }
  std::vector<graph::Value> stacks;
  const std::string prefix = run.prefix();
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!names_[i].starts_with(prefix)) continue;
    const std::string name = names_[i].substr(prefix.size());
    const graph::ValueType& type = values_[i].type();
    const ParamSpec& spec = params_.physical()[i].spec;
    layer.factors[name] = spec.factor;
    layer.partitions[name] = spec.partition;
    layer.params[name] = body->input(name, {type.shape.without(0), type.dtype, {}, type.format}, true);
    stacks.push_back(values_[i]);
  }
  // Numbers that differ from layer to layer run along with the parameters.
  const auto per_layer = [&](graph::Value all, const char* name) {
    if (!all.defined()) return graph::Value{};
    stacks.push_back(graph::slice_axis(all, 0, run.first, run.first + run.count));
    return body->input(name, {all.shape().without(0), all.dtype(), {}});
  };
  const graph::Value reach = per_layer(beside.reaches, "reach");
  const graph::Value first_row = per_layer(beside.first_rows, "first_row");
  layer.inv_freq = per_layer(beside.inv_freqs, "inv_freq");

  BodyConstants constants(*body);
  layer.positions = constants.inner(beside.positions, "positions");
  if (!layer.inv_freq.defined()) layer.inv_freq = constants.inner(beside.inv_freq, "inv_freq");
  layer.time = constants.inner(beside.time, "time");
  layer.mask = constants.inner(beside.mask);
  if (reach.defined()) layer.mask.and_window(reach);
  if (cache.defined()) {
    inner.write_at = graph::add(constants.inner(cache.write_at, "write_at"), first_row);
    inner.read_at = graph::add(constants.inner(cache.read_at, "read_at"), first_row);
  }
  const graph::Value next = find_family(config_.family).layer(layer, carry);
  body->output("hidden", next);
  if (cache.defined()) {
    body->output("keys", inner.keys);
    body->output("values", inner.values);
  }
  if (taps) body->output("tap", next);

  graph::ScanOptions options;
  options.remat = remat_;
  const graph::ScanResult result =
      graph::scan(body, carries, stacks, constants.outer(), run.count, options);
  if (cache.defined()) {
    cache.keys = result.carry[1];
    cache.values = result.carry[2];
  }
  return result;
}

ForwardOutputs Builder::forward(const ForwardInputs& inputs, bool taps) {
  graph::Value hidden = inputs.embeddings.defined() ? inputs.embeddings : embed(inputs.ids);
  const int64_t batch = hidden.dim(0), seq = hidden.dim(1);
  const graph::Value positions =
      inputs.positions.defined() ? inputs.positions : default_positions(graph_, batch, seq);
  if (config_.positions == PositionKind::learned)
    hidden = graph::add(hidden, graph::take(parameter("positions"), positions));

  ForwardOutputs outputs;
  outputs.cache = inputs.cache;
  if (taps) outputs.taps.push_back(hidden);
  const Beside shared = beside(inputs, positions, seq);
  for (const LayerRun& run : layer_runs(config_, params_.cuts())) {
    const graph::ScanResult result = run_layers(run, shared, hidden, outputs.cache, taps);
    hidden = result.carry[0];
    for (int64_t i = 0; taps && i < run.count; ++i) {
      outputs.taps.push_back(
          graph::reshape(graph::slice_axis(result.stacked[0], 0, i, i + 1), hidden.shape()));
    }
  }
  const auto eps = static_cast<float>(config_.norm_eps);
  outputs.hidden = config_.norm == NormKind::rms
                       ? graph::rms_norm(hidden, norm_weight(config_, parameter("norm")), eps)
                       : graph::layer_norm(hidden, parameter("norm"), parameter("norm.bias"), eps);
  return outputs;
}

} // namespace dllm::model
