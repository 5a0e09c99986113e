#include "model/families/transformer.h"

#include "graph/ops.h"

#include <cmath>

namespace dllm::model {
namespace {

std::string bias_name(const std::string& weight) {
  const size_t cut = weight.rfind('.');
  return weight.substr(0, cut) + ".bias";
}

// Collects the tensors of one model in the order in which they will be numbered.
class Table {
public:
  Table(bool transpose, bool centered_norms)
      : transpose_(transpose),
        norm_role_(centered_norms ? ParamRole::centered_norm : ParamRole::norm) {}

  void start(const LayerRun& run) { first_layer_ = run.first; }

  void add(const std::string& name, const std::string& logical, ParamRole role, Shape element,
           int64_t layers = 0) {
    ParamSpec spec;
    spec.name = name;
    spec.role = role;
    spec.layers = layers;
    spec.first_layer = first_layer_;
    spec.pieces = {{logical, element[0], transpose_ && role == ParamRole::weight}};
    spec.element = std::move(element);
    specs_.push_back(std::move(spec));
  }
  // A matrix (out, in) and, when there is one, its bias.
  void linear(const std::string& name, const std::string& logical, int64_t out, int64_t in,
              bool bias, int64_t layers) {
    add(name, logical, ParamRole::weight, {out, in}, layers);
    if (bias) add(name + ".bias", bias_name(logical), ParamRole::bias, {out}, layers);
  }
  void norm(const std::string& name, const std::string& logical, const std::string& bias,
            int64_t size, int64_t layers) {
    add(name, logical, norm_role_, {size}, layers);
    if (!bias.empty()) add(name + ".bias", bias, ParamRole::bias, {size}, layers);
  }
  // One matrix (out, in) per expert, stacked.
  void experts(const std::string& name, const std::string& logical, int64_t count, int64_t out,
               int64_t in, int64_t layers) {
    add(name, "", ParamRole::weight, {count, out, in}, layers);
    specs_.back().pieces.clear();
    const size_t mark = logical.find("[]");
    for (int64_t e = 0; e < count; ++e) {
      const std::string own =
          logical.substr(0, mark) + std::to_string(e) + logical.substr(mark + 2);
      specs_.back().pieces.push_back({own, 1, false});
    }
  }
  std::vector<ParamSpec> take() { return std::move(specs_); }

private:
  bool transpose_;
  ParamRole norm_role_;
  int64_t first_layer_ = 0;
  std::vector<ParamSpec> specs_;
};

} // namespace

TransformerNames llama_names() {
  const std::string layer = "model.layers.{}.";
  TransformerNames names;
  names.embedding = "model.embed_tokens.weight";
  names.final_norm = "model.norm.weight";
  names.head = "lm_head.weight";
  names.attention_norm = layer + "input_layernorm.weight";
  names.mlp_norm = layer + "post_attention_layernorm.weight";
  names.q = layer + "self_attn.q_proj.weight";
  names.k = layer + "self_attn.k_proj.weight";
  names.v = layer + "self_attn.v_proj.weight";
  names.out = layer + "self_attn.o_proj.weight";
  names.q_norm = layer + "self_attn.q_norm.weight";
  names.k_norm = layer + "self_attn.k_norm.weight";
  names.gate = layer + "mlp.gate_proj.weight";
  names.up = layer + "mlp.up_proj.weight";
  names.down = layer + "mlp.down_proj.weight";
  return names;
}

namespace {

void add_attention(Table& table, const ModelConfig& config, const TransformerNames& names,
                   const LayerRun& run) {
  const std::string own = run.prefix();
  const int64_t hidden = config.hidden_size, q = config.query_size(), kv = config.kv_size(),
                layers = run.count;
  table.norm(own + "attention_norm", names.attention_norm, names.attention_norm_bias, hidden,
             layers);
  if (!names.qkv.empty()) {
    table.linear(own + "qkv", names.qkv, q + 2 * kv, hidden, config.qkv_bias, layers);
  } else {
    table.linear(own + "q", names.q, q, hidden, config.qkv_bias, layers);
    table.linear(own + "k", names.k, kv, hidden, config.qkv_bias, layers);
    table.linear(own + "v", names.v, kv, hidden, config.qkv_bias, layers);
  }
  if (config.qk_norm) {
    table.norm(own + "q_norm", names.q_norm, "", config.head_dim, layers);
    table.norm(own + "k_norm", names.k_norm, "", config.head_dim, layers);
  }
  table.linear(own + "out", names.out, hidden, q, config.out_bias, layers);
  if (config.post_norms)
    table.norm(own + "attention_post_norm", names.attention_post_norm, "", hidden, layers);
}

void add_mlp(Table& table, const ModelConfig& config, const TransformerNames& names,
             const LayerRun& run) {
  const std::string own = run.prefix();
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  table.norm(own + "mlp_norm", names.mlp_norm, names.mlp_norm_bias, hidden, run.count);
  if (config.gated_mlp)
    table.linear(own + "gate", names.gate, inner, hidden, config.mlp_bias, run.count);
  table.linear(own + "up", names.up, inner, hidden, config.mlp_bias, run.count);
  table.linear(own + "down", names.down, hidden, inner, config.mlp_bias, run.count);
  if (config.post_norms)
    table.norm(own + "mlp_post_norm", names.mlp_post_norm, "", hidden, run.count);
}

void add_experts(Table& table, const ModelConfig& config, const TransformerNames& names,
                 const LayerRun& run) {
  const std::string own = run.prefix();
  const ExpertConfig& experts = config.experts;
  const int64_t hidden = config.hidden_size, layers = run.count;
  table.norm(own + "mlp_norm", names.mlp_norm, names.mlp_norm_bias, hidden, layers);
  table.add(own + "router", names.router, ParamRole::router, {experts.count, hidden}, layers);
  if (experts.bias)
    table.add(own + "router.bias", names.router_bias, ParamRole::bias, {experts.count}, layers);
  const auto stack = [&](const char* name, const std::string& logical, int64_t out, int64_t in) {
    table.experts(own + name, logical, experts.count, out, in, layers);
  };
  stack("expert_gate", names.expert_gate, experts.intermediate, hidden);
  stack("expert_up", names.expert_up, experts.intermediate, hidden);
  stack("expert_down", names.expert_down, hidden, experts.intermediate);
  if (experts.shared == 0) return;
  table.linear(own + "gate", names.shared_gate, experts.shared, hidden, false, layers);
  table.linear(own + "up", names.shared_up, experts.shared, hidden, false, layers);
  table.linear(own + "down", names.shared_down, hidden, experts.shared, false, layers);
}

} // namespace

std::vector<ParamSpec> transformer_params(const ModelConfig& config,
                                          const TransformerNames& names) {
  const int64_t hidden = config.hidden_size;
  Table table(names.transpose, config.centered_norms);
  table.add("embedding", names.embedding, ParamRole::embedding, {config.vocab_size, hidden});
  if (config.positions == PositionKind::learned) {
    table.add("positions", names.positions, ParamRole::positions, {config.max_positions, hidden});
  }
  for (const LayerRun& run : layer_runs(config)) {
    table.start(run);
    add_attention(table, config, names, run);
    if (run.experts)
      add_experts(table, config, names, run);
    else
      add_mlp(table, config, names, run);
  }
  table.start({});
  table.norm("norm", names.final_norm, names.final_norm_bias, hidden, 0);
  if (!config.tie_embeddings) table.linear("head", names.head, config.vocab_size, hidden, false, 0);
  return table.take();
}

graph::Value LayerInputs::param(const std::string& name) const {
  const auto found = params.find(name);
  return found == params.end() ? graph::Value{} : found->second;
}

Linear LayerInputs::linear(const std::string& name) const {
  return find_linear(
      [&](const std::string& own) -> NamedParam {
        const auto found = params.find(own);
        if (found == params.end()) return {};
        return {found->second, factors.at(own), partitions.at(own)};
      },
      name);
}

graph::Value norm_weight(const ModelConfig& config, graph::Value weight) {
  return config.centered_norms ? graph::add(weight, graph::scalar(*weight.graph, 1.0f)) : weight;
}

graph::Value linear_param(const LayerInputs& inputs, graph::Value x, const std::string& name) {
  return product(inputs.linear(name), x);
}

namespace {

graph::Value norm(const LayerInputs& inputs, graph::Value x, const std::string& name) {
  const auto eps = static_cast<float>(inputs.config.norm_eps);
  if (inputs.config.norm == NormKind::rms)
    return graph::rms_norm(x, norm_weight(inputs.config, inputs.param(name)), eps);
  return graph::layer_norm(x, inputs.param(name), inputs.param(name + ".bias"), eps);
}

graph::Value activate(const std::string& kind, graph::Value x) {
  if (kind == "silu") return graph::silu(x);
  if (kind == "relu") return graph::maximum(x, graph::scalar(*x.graph, 0.0f));
  return graph::gelu(x, kind == "gelu_tanh");
}

struct Heads {
  graph::Value q, k, v; // (batch, seq, heads or kv_heads, head_dim)
};

Heads project(const LayerInputs& inputs, graph::Value x) {
  const ModelConfig& config = inputs.config;
  const int64_t q = config.query_size(), kv = config.kv_size();
  Heads heads;
  if (inputs.param("qkv").defined()) {
    const graph::Value all = linear_param(inputs, x, "qkv"); // (batch, seq, q + 2 kv)
    heads = {graph::slice_axis(all, 2, 0, q), graph::slice_axis(all, 2, q, q + kv),
             graph::slice_axis(all, 2, q + kv, q + 2 * kv)};
  } else {
    heads = {linear_param(inputs, x, "q"), linear_param(inputs, x, "k"),
             linear_param(inputs, x, "v")};
  }
  const int64_t batch = x.dim(0), seq = x.dim(1);
  heads.q = graph::reshape(heads.q, {batch, seq, config.heads, config.head_dim});
  heads.k = graph::reshape(heads.k, {batch, seq, config.kv_heads, config.head_dim});
  heads.v = graph::reshape(heads.v, {batch, seq, config.kv_heads, config.head_dim});
  return heads;
}

// Writes the window's K and V into the cache and takes those of all keys out of it. One gather per
// layer: the keys are copied, not the whole cache.
void keep_heads(KvCache& cache, Heads& heads) {
  const int64_t rows = cache.write_at.shape().count(), kv_heads = heads.k.dim(2),
                dim = heads.k.dim(3);
  const Shape all{cache.read_at.dim(0), cache.read_at.dim(1), kv_heads, dim};
  const auto keep = [&](graph::Value& kept, graph::Value fresh) {
    const graph::Value flat = graph::reshape(fresh, {rows, kv_heads * dim});
    kept = graph::scatter_set(kept, cache.write_at, graph::convert(flat, kept.dtype()));
    return graph::reshape(graph::take(kept, cache.read_at), all);
  };
  heads.k = keep(cache.keys, heads.k);
  heads.v = keep(cache.values, heads.v);
}

} // namespace

graph::Value attention_block(const LayerInputs& inputs, graph::Value x) {
  const ModelConfig& config = inputs.config;
  Heads heads = project(inputs, x);
  if (config.qk_norm) {
    heads.q = norm(inputs, heads.q, "q_norm");
    heads.k = norm(inputs, heads.k, "k_norm");
  }
  if (inputs.inv_freq.defined()) {
    heads.q = graph::rope(heads.q, inputs.positions, inputs.inv_freq, false, inputs.rope_amplitude);
    heads.k = graph::rope(heads.k, inputs.positions, inputs.inv_freq, false, inputs.rope_amplitude);
  }
  if (inputs.round_kv) {
    heads.k = graph::convert(graph::convert(heads.k, DType::bf16), DType::f32);
    heads.v = graph::convert(graph::convert(heads.v, DType::bf16), DType::f32);
  }
  if (inputs.cache != nullptr) keep_heads(*inputs.cache, heads);
  graph::AttentionOptions options;
  const double size =
      config.query_scalar > 0 ? config.query_scalar : static_cast<double>(config.head_dim);
  options.scale = static_cast<float>(1.0 / std::sqrt(size));
  options.softcap = static_cast<float>(config.attention_softcap);
  options.empty_average = inputs.empty_average;
  const graph::Value seen = graph::attention(heads.q, heads.k, heads.v, inputs.mask, options);
  return linear_param(inputs, graph::reshape(seen, {x.dim(0), x.dim(1), config.query_size()}),
                      "out");
}

graph::Value mlp_block(const LayerInputs& inputs, graph::Value x) {
  const std::string& kind = inputs.config.activation;
  const graph::Value up = linear_param(inputs, x, "up");
  if (!inputs.config.gated_mlp) return linear_param(inputs, activate(kind, up), "down");
  const graph::Value gate = linear_param(inputs, x, "gate");
  return linear_param(inputs, graph::gated_activation(gate, up, kind), "down");
}

graph::Value transformer_layer(const LayerInputs& inputs, graph::Value hidden) {
  const auto added = [&](graph::Value x, const char* post_norm) {
    return graph::add(hidden, inputs.config.post_norms ? norm(inputs, x, post_norm) : x);
  };
  hidden =
      added(attention_block(inputs, norm(inputs, hidden, "attention_norm")), "attention_post_norm");
  const graph::Value x = norm(inputs, hidden, "mlp_norm");
  return added(inputs.param("router").defined() ? expert_block(inputs, x) : mlp_block(inputs, x),
               "mlp_post_norm");
}

} // namespace dllm::model
