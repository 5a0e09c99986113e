// Attention of query heads over key and value heads (Vaswani et al. 2017; grouped: Ainslie et al.
// 2023). The config adds rotary positions, a norm on every head of q and k, a cap of the scores and
// a sliding window.

#include "graph/ops.h"
#include "model/layers/layer_kind.h"
#include "model/network/row_parts.h"

#include <cmath>

namespace dllm::model {
namespace {

// With has_values = false the values are the keys before their norm and have no matrix.
void add_heads(ParamTable& table, const ModelConfig& config, bool has_values) {
  const int64_t hidden = config.hidden_size, q = config.query_size(), kv = config.kv_size();
  if (table.has("qkv")) {
    table.matrix("qkv", q + 2 * kv, hidden, config.qkv_bias);
  } else {
    table.matrix("q", config.attention_gate ? 2 * q : q, hidden, config.qkv_bias);
    table.matrix("k", kv, hidden, config.qkv_bias);
    if (has_values) table.matrix("v", kv, hidden, config.qkv_bias);
  }
  if (config.qk_norm) {
    table.norm("q_norm", config.head_dim);
    table.norm("k_norm", config.head_dim);
  }
  table.matrix("out", hidden, q, config.out_bias);
}

void attention_params(ParamTable& table, const ModelConfig& config) {
  add_heads(table, config, true);
}

struct AttentionHeads {
  graph::Value q, k, v; // (batch, seq, heads or kv_heads, head_dim)
  graph::Value gate;    // as q, or undefined
};

AttentionHeads project(const LayerInputs& inputs, const ModelConfig& config, graph::Value x) {
  const int64_t q = config.query_size(), kv = config.kv_size();
  AttentionHeads heads;
  if (inputs.param("qkv").defined()) {
    const graph::Value all = linear_param(inputs, x, "qkv"); // (batch, seq, q + 2 kv)
    heads = {graph::slice_axis(all, 2, 0, q),
             graph::slice_axis(all, 2, q, q + kv),
             graph::slice_axis(all, 2, q + kv, q + 2 * kv),
             {}};
  } else {
    heads = {linear_param(inputs, x, "q"), linear_param(inputs, x, "k"), {}, {}};
    heads.v = inputs.param("v").defined() ? linear_param(inputs, x, "v") : heads.k;
  }
  // Where heads are cut over ranks, this rank has some of them.
  const int64_t batch = x.dim(0), seq = x.dim(1), dim = config.head_dim;
  const auto by_head = [&](graph::Value rows, int64_t size) {
    return graph::reshape(rows, {batch, seq, rows.dim(2) / size, size});
  };
  if (config.attention_gate) { // rows of a head: its q, then its gate
    const graph::Value both = by_head(heads.q, 2 * dim);
    heads.q = graph::slice_axis(both, 3, 0, dim);
    heads.gate = graph::slice_axis(both, 3, dim, 2 * dim);
  } else {
    heads.q = by_head(heads.q, dim);
  }
  heads.k = by_head(heads.k, dim);
  heads.v = by_head(heads.v, dim);
  return heads;
}

// Returns 1 + beta ln(1 + floor(position / length)) as f32(batch, seq, 1, 1). Queries far beyond
// the length of training get sharper (RopeConfig::query_beta).
graph::Value query_factor(const RopeConfig& rope, int64_t length, graph::Value positions) {
  graph::Graph& graph = *positions.graph;
  const graph::Value turns = graph::divide(
      positions, graph::scalar_i32(graph, static_cast<int32_t>(length))); // rounded down
  const graph::Value growth =
      graph::multiply(graph::log1p(graph::convert(turns, DType::f32)),
                      graph::scalar(graph, static_cast<float>(rope.query_beta)));
  return graph::reshape(graph::add(growth, graph::scalar(graph, 1.0f)),
                        {positions.dim(0), positions.dim(1), 1, 1});
}

// Where layers differ in their heads, all have as many frequencies as the widest heads.
graph::Value frequencies(const LayerInputs& inputs, const ModelConfig& config) {
  const int64_t count = rotary_size(config) / 2;
  if (inputs.inv_freq.dim(0) == count) return inputs.inv_freq;
  return graph::slice_axis(inputs.inv_freq, 0, 0, count);
}

// Applies RMSNorm to heads, also where blocks have another kind of norm.
graph::Value head_norm(const LayerInputs& inputs, graph::Value x, const char* name) {
  return graph::rms_norm(x, norm_weight(inputs.config, inputs.param(name)),
                         static_cast<float>(inputs.config.norm_eps));
}

// `config` has the heads of this layer.
graph::Value build_heads(const LayerInputs& inputs, const ModelConfig& config, graph::Value x) {
  AttentionHeads heads = project(inputs, config, x);
  if (config.value_norm)
    heads.v = graph::rms_norm(heads.v, {}, static_cast<float>(config.norm_eps));
  if (config.qk_norm) {
    heads.q = head_norm(inputs, heads.q, "q_norm");
    heads.k = head_norm(inputs, heads.k, "k_norm");
  }
  if (inputs.inv_freq.defined()) {
    const graph::Value turns = frequencies(inputs, config);
    heads.q = graph::rope(heads.q, inputs.positions, turns, false, inputs.rope_amplitude);
    heads.k = graph::rope(heads.k, inputs.positions, turns, false, inputs.rope_amplitude);
  }
  if (const RopeConfig& rope = config.rope; rope.query_beta > 0) {
    const int64_t length =
        rope.original_max_positions > 0 ? rope.original_max_positions : config.max_positions;
    heads.q = graph::multiply(heads.q, query_factor(rope, length, inputs.positions));
  }
  heads.k = inputs.state->keep("keys", heads.k);
  heads.v = inputs.state->keep("values", heads.v);
  graph::AttentionOptions options;
  const double size =
      config.query_scalar > 0 ? config.query_scalar : static_cast<double>(config.head_dim);
  options.scale = static_cast<float>(1.0 / std::sqrt(size));
  options.softcap = static_cast<float>(config.attention_softcap);
  options.empty_average = inputs.empty_average;
  graph::Value mixed =
      row_attention(heads.q, heads.k, heads.v, inputs.mask, options, inputs.sequence_ranks);
  if (heads.gate.defined()) mixed = graph::multiply(mixed, graph::logistic(heads.gate));
  const int64_t size_of_rank = mixed.dim(2) * mixed.dim(3);
  return linear_param(inputs, graph::reshape(mixed, {x.dim(0), x.dim(1), size_of_rank}), "out");
}

graph::Value build_attention(const LayerInputs& inputs, graph::Value x) {
  return build_heads(inputs, inputs.config, x);
}

LayerCost attention_cost(const ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_size),
             q = static_cast<double>(config.query_size()),
             kv = static_cast<double>(config.kv_size());
  const double gate = config.attention_gate ? q : 0;
  return {2 * hidden * (2 * q + gate + 2 * kv), 4 * q};
}

std::vector<StateSlot> attention_state(const ModelConfig& config) {
  const Shape row{config.kv_heads, config.head_dim};
  std::vector<StateSlot> slots = {{"keys", StateKind::positional, row, config.cache_dtype, true},
                                  {"values", StateKind::positional, row, config.cache_dtype, true}};
  if (config.cache_dtype != DType::i8) return slots;
  for (const char* name : {"keys.scale", "values.scale"})
    slots.push_back({name, StateKind::positional, {config.kv_heads}, DType::f32, true});
  return slots;
}

// Attention of layers with their own head size. Every rank has all heads.

void global_params(ParamTable& table, const ModelConfig& config) {
  add_heads(table, with_global_heads(config), false);
}

graph::Value build_global(const LayerInputs& inputs, graph::Value x) {
  return build_heads(inputs, with_global_heads(inputs.config), x);
}

LayerCost global_cost(const ModelConfig& config) {
  const ModelConfig own = with_global_heads(config);
  LayerCost cost = attention_cost(own);
  cost.per_token -= 2 * static_cast<double>(own.hidden_size) * static_cast<double>(own.kv_size());
  return cost;
}

std::vector<StateSlot> global_state(const ModelConfig& config) {
  std::vector<StateSlot> slots = attention_state(with_global_heads(config));
  for (StateSlot& slot : slots) slot.by_heads = false;
  return slots;
}

} // namespace

const LayerKind kAttention = {"attention",
                              LayerPart::mixer,
                              attention_params,
                              build_attention,
                              attention_cost,
                              attention_state,
                              false,
                              true};
const LayerKind kGlobalAttention = {
    "global_attention", LayerPart::mixer, global_params, build_global,
    global_cost,        global_state,     false,         true};

} // namespace dllm::model
