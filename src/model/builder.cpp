#include "model/builder.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/families/family.h"
#include "model/rope.h"

#include <cmath>

namespace dllm::model {
namespace {

constexpr std::string_view kLayerPrefix = "layers.";

std::vector<Builder::Parameter> parameter_table(const Model& model) {
  std::vector<Builder::Parameter> table;
  for (const ParamStore::Physical& entry : model.params().physical()) {
    table.push_back({entry.name, entry.shape, entry.dtype});
  }
  return table;
}

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

// Embedding of the noise level u = t / steps (spec-nano-dlm 2): sinusoid, then two layers with silu
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
    return graph::linear(x, builder.parameter(name), builder.parameter(name + ".bias"),
                         builder.scale(name));
  };
  return layer(graph::silu(layer(graph::concat(parts, 1), "time.in")), "time.out");
}

graph::Value default_positions(graph::Graph& graph, int64_t batch, int64_t seq) {
  return graph::broadcast(graph::iota(graph, {seq}, DType::i32, 0), {batch, seq});
}

} // namespace

Builder::Builder(graph::Graph& graph, const Model& model)
    : Builder(graph, model.config(), parameter_table(model)) {}

Builder::Builder(graph::Graph& graph, const ModelConfig& config, std::vector<Parameter> parameters)
    : graph_(graph), config_(config), table_(std::move(parameters)) {
  for (const Parameter& entry : table_) {
    index_[entry.name] = values_.size();
    values_.push_back(graph_.input("param:" + entry.name, {entry.shape, entry.dtype, {}}, true));
  }
}

graph::Value Builder::parameter(const std::string& physical_name) {
  const auto found = index_.find(physical_name);
  return found == index_.end() ? graph::Value{} : values_[found->second];
}

graph::Value Builder::embed(graph::Value ids) {
  return graph::take(parameter("embedding"), ids, scale("embedding"));
}

Head Builder::head() {
  const std::string name = config_.tie_embeddings ? "embedding" : "head";
  return {parameter(name), config_.tie_embeddings ? graph::Value{} : parameter("head.bias"),
          scale(name)};
}

graph::Value Builder::logits(graph::Value hidden) {
  const Head own = head();
  return graph::linear(hidden, own.weight, own.bias, own.scale);
}

ForwardOutputs Builder::forward(const ForwardInputs& inputs, bool taps) {
  graph::Value hidden = inputs.embeddings.defined() ? inputs.embeddings : embed(inputs.ids);
  const int64_t batch = hidden.dim(0), seq = hidden.dim(1);
  const graph::Value positions =
      inputs.positions.defined() ? inputs.positions : default_positions(graph_, batch, seq);

  graph::Value inv_freq, time;
  float amplitude = 1;
  if (config_.positions == PositionKind::learned) {
    hidden = graph::add(hidden, graph::take(parameter("positions"), positions));
  } else {
    const RopeTable table = rope_table(config_, seq);
    inv_freq = graph::constant(graph_, table.inv_freq);
    amplitude = table.amplitude;
  }
  if (config_.time_conditioning) {
    if (!inputs.timesteps.defined()) {
      fail(Code::invalid_argument,
           "the model is conditioned on time: timesteps (batch) are needed");
    }
    time = time_embedding(*this, inputs.timesteps);
  }

  const auto body = std::make_shared<graph::Graph>("layer");
  const graph::Value carry = body->input("hidden", hidden.type());
  LayerInputs layer{config_, {}, {}, {}, amplitude, {}, inputs.empty_average, nullptr, inputs.round_kv, {}};
  KvCache cache = inputs.cache;
  std::vector<graph::Value> carries = {hidden};
  if (cache.defined()) {
    layer.cache = &cache;
    for (graph::Value* kept : {&cache.keys, &cache.values}) {
      carries.push_back(*kept);
      *kept = body->input(kept == &cache.keys ? "keys" : "values", kept->type());
    }
  }
  std::vector<graph::Value> stacks;
  for (const Parameter& entry : table_) {
    if (!entry.name.starts_with(kLayerPrefix)) continue;
    const std::string name = entry.name.substr(kLayerPrefix.size());
    layer.params[name] = body->input(name, {entry.shape.without(0), entry.dtype, {}}, true);
    stacks.push_back(parameter(entry.name));
  }
  graph::Value first_row; // of this layer in the cache
  if (cache.defined()) {
    const int64_t rows = inputs.cache.keys.dim(0) / config_.layers;
    first_row = body->input("first_row", {{}, DType::i32, {}});
    stacks.push_back(graph::multiply(graph::iota(graph_, {config_.layers}, DType::i32, 0),
                                     graph::scalar_i32(graph_, static_cast<int32_t>(rows))));
  }
  BodyConstants constants(*body);
  layer.positions = constants.inner(positions, "positions");
  layer.inv_freq = constants.inner(inv_freq, "inv_freq");
  layer.time = constants.inner(time, "time");
  layer.mask = constants.inner(inputs.mask);
  if (cache.defined()) {
    cache.write_at = graph::add(constants.inner(inputs.cache.write_at, "write_at"), first_row);
    cache.read_at = graph::add(constants.inner(inputs.cache.read_at, "read_at"), first_row);
  }
  const graph::Value next = find_family(config_.family).layer(layer, carry);
  body->output("hidden", next);
  if (cache.defined()) {
    body->output("keys", cache.keys);
    body->output("values", cache.values);
  }
  if (taps) body->output("tap", next);

  graph::ScanOptions options;
  options.remat = remat_;
  const graph::ScanResult result =
      graph::scan(body, carries, stacks, constants.outer(), config_.layers, options);

  ForwardOutputs outputs;
  if (cache.defined()) {
    outputs.cache.keys = result.carry[1];
    outputs.cache.values = result.carry[2];
  }
  if (taps) {
    outputs.taps.push_back(hidden);
    for (int64_t i = 0; i < config_.layers; ++i) {
      outputs.taps.push_back(
          graph::reshape(graph::slice_axis(result.stacked[0], 0, i, i + 1), hidden.shape()));
    }
  }
  const auto eps = static_cast<float>(config_.norm_eps);
  const graph::Value last = result.carry[0];
  outputs.hidden = config_.norm == NormKind::rms
                       ? graph::rms_norm(last, parameter("norm"), eps)
                       : graph::layer_norm(last, parameter("norm"), parameter("norm.bias"), eps);
  return outputs;
}

graph::Mask make_mask(AttentionKind kind, graph::Value block, graph::Value length) {
  const auto need = [&](graph::Value value, const char* what) {
    if (!value.defined())
      fail(Code::invalid_argument, "{} attention needs a {}", attention_name(kind), what);
  };
  switch (kind) {
  case AttentionKind::bidirectional: return graph::Mask::full();
  case AttentionKind::causal: return graph::Mask::causal();
  case AttentionKind::block_causal:
    need(block, "block length");
    return graph::Mask::block_causal(block);
  case AttentionKind::two_stream:
    need(block, "block length");
    need(length, "length");
    return graph::Mask::two_stream(length, block);
  case AttentionKind::automatic: break;
  }
  fail(Code::invalid_argument, "attention auto must be resolved before a graph is built");
}

} // namespace dllm::model
