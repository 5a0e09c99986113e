#include "model/layers/layer_kind.h"

#include "base/error.h"
#include "base/named_table.h"
#include "graph/ops.h"
#include "model/params/part.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <vector>

namespace dllm::model {

namespace {

struct KindTable {
  std::mutex mutex;
  std::vector<const LayerKind*> kinds{&kAttention,  &kCrossAttention,    &kExperts,
                                      &kGatedDelta, &kGlobalAttention,   &kMlp,
                                      &kMlpExperts, &kSelfCrossAttention};
};

KindTable& kind_table() {
  static KindTable table;
  return table;
}

} // namespace

const LayerKind& find_layer_kind(LayerPart part, const std::string& name) {
  KindTable& table = kind_table();
  const std::lock_guard lock(table.mutex);
  std::vector<const LayerKind*> kinds;
  std::ranges::copy_if(table.kinds, std::back_inserter(kinds),
                       [&](const LayerKind* kind) { return kind->part == part; });
  return *need_named(kinds, name, &LayerKind::name,
                     {.kind = "layer kind",
                      .where = part == LayerPart::mixer ? "for a mixer" : "for a network",
                      .code = Code::invalid_argument});
}

void add_layer_kind(const LayerKind& kind) {
  KindTable& table = kind_table();
  const std::lock_guard lock(table.mutex);
  for (const LayerKind* other : table.kinds) {
    if (std::string(other->name) == kind.name)
      fail(Code::invalid_argument, "there is a layer kind named {} already", kind.name);
  }
  table.kinds.push_back(&kind);
}

graph::Value LayerInputs::param(const std::string& name) const {
  const auto found = params.find(name);
  return found == params.end() ? graph::Value{} : found->second;
}

Linear LayerInputs::linear(const std::string& name) const {
  Linear made = find_linear(
      [&](const std::string& own) -> NamedParam {
        const auto found = params.find(own);
        if (found == params.end()) return {};
        return {found->second, factors.at(own), partitions.at(own)};
      },
      name, adapters);
  made.choice = row_adapters;
  for (Adapter& adapter : made.adapters) {
    const auto rate = dropouts.find(split_name(adapter.name).first);
    if (rate != dropouts.end()) adapter.dropout = Dropout{rate->second, dropout_keys};
  }
  return made;
}

graph::Value norm_weight(const ModelConfig& config, graph::Value weight) {
  return config.centered_norms ? graph::add(weight, graph::scalar(*weight.graph, 1.0f)) : weight;
}

graph::Value linear_param(const LayerInputs& inputs, graph::Value x, const std::string& name) {
  return product(inputs.linear(name), x);
}

graph::Value norm(const LayerInputs& inputs, graph::Value x, const std::string& name) {
  const auto eps = static_cast<float>(inputs.config.norm_eps);
  if (inputs.config.norm == NormKind::rms)
    return graph::rms_norm(x, norm_weight(inputs.config, inputs.param(name)), eps);
  return graph::layer_norm(x, inputs.param(name), inputs.param(name + ".bias"), eps);
}

namespace {

// Applies the norm of a block. In models with time conditioning, with (gamma, beta) = split(time W
// + b): y = layer_norm(x) (1 + gamma) + beta (DiT, Peebles and Xie 2023).
graph::Value block_norm(const LayerInputs& inputs, graph::Value x, const std::string& name) {
  if (!inputs.param(name).defined()) return x; // ModelConfig::first_norm
  if (!inputs.time.defined()) return norm(inputs, x, name);
  const graph::Value normed = graph::layer_norm(x, inputs.param(name), inputs.param(name + ".bias"),
                                                static_cast<float>(inputs.config.norm_eps));
  const int64_t batch = x.dim(0), hidden = inputs.config.hidden_size;
  const graph::Value both = linear_param(inputs, inputs.time, name + ".time"); // (batch, 2 hidden)
  const graph::Value gamma =
      graph::reshape(graph::slice_axis(both, 1, 0, hidden), {batch, 1, hidden});
  const graph::Value beta =
      graph::reshape(graph::slice_axis(both, 1, hidden, 2 * hidden), {batch, 1, hidden});
  return graph::add(graph::multiply(normed, graph::add(gamma, graph::scalar(*x.graph, 1.0f))),
                    beta);
}

// Returns the factor of the layer's result, f32(batch, seq, 1) or (1): one number on the canvas,
// another before it.
graph::Value layer_factor(const LayerInputs& inputs) {
  const graph::Value before = inputs.param("encoder_factor");
  if (!inputs.on_canvas.defined()) return before;
  const Shape shape = inputs.on_canvas.shape();
  return graph::select(inputs.on_canvas, graph::broadcast(inputs.param("factor"), shape),
                       graph::broadcast(before, shape));
}

bool is_adaptive(const ModelConfig& config) {
  return config.tower.level == LevelKind::adaptive;
}

} // namespace

graph::Value over_positions(graph::Value x, int64_t seq) {
  const int64_t batch = x.dim(0), parts = x.dim(1), size = x.dim(2);
  if (parts == 1) return x;
  const Shape wide{batch, parts, seq / parts, size};
  return graph::reshape(graph::broadcast(graph::reshape(x, {batch, parts, 1, size}), wide),
                        {batch, seq, size});
}

graph::Value adaptive_norm(graph::Value x, graph::Value both, float eps) {
  const int64_t hidden = x.dim(2), seq = x.dim(1);
  const graph::Value scale = graph::slice_axis(both, 2, 0, hidden),
                     shift = graph::slice_axis(both, 2, hidden, 2 * hidden),
                     factor = graph::add(scale, graph::scalar(*x.graph, 1.0f));
  return graph::add(graph::multiply(graph::layer_norm(x, {}, {}, eps), over_positions(factor, seq)),
                    over_positions(shift, seq));
}

void add_block_norm(ParamTable& table, const ModelConfig& config, const std::string& name,
                    bool gated) {
  const int64_t hidden = config.hidden_size;
  if (!is_adaptive(config)) return table.norm(name, hidden);
  table.matrix(name + ".in", 2 * hidden, hidden, true);
  table.set_zero();
  if (!gated) return;
  table.matrix(name + ".gate", hidden, hidden, true);
  table.set_zero();
}

graph::Value block_input(const LayerInputs& inputs, graph::Value x, const std::string& name) {
  if (!is_adaptive(inputs.config)) return block_norm(inputs, x, name);
  return adaptive_norm(x, linear_param(inputs, inputs.time, name + ".in"),
                       static_cast<float>(inputs.config.norm_eps));
}

graph::Value block_result(const LayerInputs& inputs, graph::Value y, const std::string& name) {
  if (!is_adaptive(inputs.config)) return y;
  const graph::Value gate = linear_param(inputs, inputs.time, name + ".gate"); // (batch, n, hidden)
  return graph::multiply(y, over_positions(gate, y.dim(1)));
}

graph::Value build_layer(const LayerInputs& inputs, graph::Value hidden) {
  const auto half = [&](const LayerKind& kind, const char* norm_name, const char* post_norm) {
    if (inputs.config.norm_after) {
      hidden = norm(inputs, graph::add(hidden, kind.build(inputs, hidden)), norm_name);
      return;
    }
    graph::Value x =
        kind.norms_input
            ? kind.build(inputs, hidden)
            : block_result(inputs, kind.build(inputs, block_input(inputs, hidden, norm_name)),
                           norm_name);
    if (inputs.config.post_norms) x = norm(inputs, x, post_norm);
    hidden = graph::add(hidden, x);
  };
  half(*inputs.run.mixer, "attention_norm", "attention_post_norm");
  half(*inputs.run.network, "mlp_norm", "mlp_post_norm");
  return inputs.config.canvas ? graph::multiply(hidden, layer_factor(inputs)) : hidden;
}

void add_layer_params(ParamTable& table, const ModelConfig& config, const LayerRun& run) {
  table.begin(run);
  const auto half = [&](const LayerKind& kind, const char* norm_name, const char* post_norm) {
    table.set_kind(kind.name);
    const bool first_mixer = run.first == 0 && kind.part == LayerPart::mixer;
    if (config.first_norm || !first_mixer) add_block_norm(table, config, norm_name, true);
    kind.params(table, config);
    if (config.post_norms) table.norm(post_norm, config.hidden_size);
  };
  half(*run.mixer, "attention_norm", "attention_post_norm");
  half(*run.network, "mlp_norm", "mlp_post_norm");
  if (config.canvas) {
    for (const char* name : {"factor", "encoder_factor"}) table.add(name, ParamRole::norm, {1});
  }
  table.end_layers();
}

std::vector<StateSlot> layer_slots(const ModelConfig& config, const LayerRun& run) {
  std::vector<StateSlot> slots;
  for (const LayerKind* kind : {run.mixer, run.network}) {
    if (kind->state == nullptr) continue;
    for (StateSlot& slot : kind->state(config)) slots.push_back(std::move(slot));
  }
  return slots;
}

LayerCost layer_cost(const ModelConfig& config, const LayerRun& run) {
  const LayerCost mixer = run.mixer->cost(config), network = run.network->cost(config);
  return {mixer.per_token + network.per_token, mixer.per_pair + network.per_pair};
}

namespace {

std::string bias_of(const std::string& weight) {
  return weight.substr(0, weight.rfind('.')) + ".bias";
}

} // namespace

bool TensorNames::has(std::string_view name) const {
  const auto found = files.find(name);
  return found != files.end() && !found->second.empty();
}

std::string ParamTable::file_of(const std::string& name) const {
  if (names_.has(name)) return names_.files.find(name)->second;
  return (layers_ > 0 ? names_.layer + kind_ + "." : "") + name + ".weight";
}

void ParamTable::begin(const LayerRun& run) {
  prefix_ = run.prefix();
  layers_ = run.count;
  first_layer_ = run.first;
}

void ParamTable::end_layers() {
  prefix_.clear();
  layers_ = first_layer_ = 0;
}

void ParamTable::add(const std::string& name, ParamRole role, Shape element,
                     const std::string& file) {
  ParamSpec spec;
  spec.name = prefix_ + name;
  spec.use = layers_ > 0 ? kind_ + "." + name : name;
  spec.role = role;
  spec.layers = layers_;
  spec.first_layer = first_layer_;
  spec.pieces = {{file_of(file.empty() ? name : file), element[0],
                  names_.transpose && role == ParamRole::weight, role == ParamRole::convolution}};
  spec.element = std::move(element);
  specs_.push_back(std::move(spec));
}

void ParamTable::matrix(const std::string& name, int64_t out, int64_t in, bool bias,
                        const std::string& file) {
  add(name, ParamRole::weight, {out, in}, file);
  if (!bias) return;
  const std::string weight = specs_.back().pieces[0].logical,
                    own = (file.empty() ? name : file) + ".bias";
  add(name + ".bias", ParamRole::bias, {out}, own);
  if (!names_.has(own)) specs_.back().pieces[0].logical = bias_of(weight);
}

void ParamTable::set_zero() {
  const bool is_bias = specs_.back().role == ParamRole::bias;
  specs_[specs_.size() - (is_bias ? 2 : 1)].zero = true;
}

void ParamTable::norm(const std::string& name, int64_t size) {
  add(name, config_.centered_norms ? ParamRole::centered_norm : ParamRole::norm, {size});
  if (has(name + ".bias")) add(name + ".bias", ParamRole::bias, {size});
}

void ParamTable::experts(const std::string& name, int64_t count, int64_t out, int64_t in) {
  add(name, ParamRole::weight, {count, out, in});
  std::vector<ParamPiece>& pieces = specs_.back().pieces;
  const std::string file = pieces[0].logical;
  pieces.clear();
  const size_t mark = file.find("[]");
  if (mark == std::string::npos) {
    ParamPiece all{file, count, false};
    all.stack = true;
    pieces.push_back(std::move(all));
    return;
  }
  for (int64_t e = 0; e < count; ++e)
    pieces.push_back({file.substr(0, mark) + std::to_string(e) + file.substr(mark + 2), 1, false});
}

} // namespace dllm::model
