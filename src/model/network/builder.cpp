#include "model/network/builder.h"

#include "base/error.h"
#include "base/named_table.h"
#include "graph/ops.h"
#include "model/adapters/kinds/adapter_kinds.h"

#include <algorithm>

namespace dllm::model {

Builder::Builder(graph::Graph& graph, const Model& model)
    : Builder(graph, model, model.reading()) {}

Builder::Builder(graph::Graph& graph, const Model& model, const PartList& parts,
                 std::span<const size_t> changing)
    : graph_(graph), model_(model), config_(model.config()), params_(model.params()),
      stacks_(state_stacks(model.config())) {
  for (const size_t index : params_.indices(parts)) {
    const ParamStore::Physical& entry = params_.physical()[index];
    const bool stays = !std::ranges::binary_search(changing, index);
    all_.push_back({index, entry.name, graph_.input("param:" + entry.name, entry.type(), stays)});
  }
  PartList own;
  for (const std::string& name : parts.names()) {
    if (name != kBasePart && model.parts().find(name)->kind == PartKind::adapter)
      own.add(name, parts.weight(name));
  }
  find_inputs(own);
}

Builder::Builder(const Builder& outer, const ModelConfig& config, const PartList& parts)
    : graph_(outer.graph_), model_(outer.model_), config_(config), params_(outer.params_),
      stacks_(state_stacks(config)), all_(outer.all_), bf16_embeddings_(outer.bf16_embeddings_),
      remat_(outer.remat_), recompute_(outer.recompute_), round_kept_(outer.round_kept_),
      sequence_ranks_(outer.sequence_ranks_) {
  find_inputs(parts);
}

// `parts` lists the network, then its adapters.
void Builder::find_inputs(const PartList& parts) {
  parts_ = parts;
  network_ = parts.names().front();
  for (size_t i = 1; i < parts.names().size(); ++i) {
    const std::string& adapter = parts.names()[i];
    const std::shared_ptr<const Part> part = model_.parts().find(adapter);
    const AdapterSettings& settings = part->settings;
    adapters_.push_back({adapter, &find_adapter_kind(settings.kind)});
    if (settings.dropout > 0) dropouts_[adapter] = static_cast<float>(settings.dropout);
  }
  for (const Input& input : all_) {
    const std::string& part = params_.physical()[input.index].spec.part;
    if (!parts.has(part)) continue;
    const std::string name = part == network_ ? split_name(input.name).second : input.name;
    index_[name] = inputs_.size();
    inputs_.push_back({input.index, name, input.value});
  }
  std::map<std::string, std::string> owners; // parts, by the names that they stand for
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_copy(i)) continue;
    const auto [part, own] = split_name(inputs_[i].name);
    if (const auto other = owners.emplace(own, part); !other.second) {
      fail_with_hint("choose one of them with option adapters, or give one of them the scale 0",
                     Code::failed_precondition, "{} and {} both have {} of their own",
                     other.first->second, part, own);
    }
    index_[own] = i;
    index_.erase(own + ".scale");
  }
}

bool Builder::is_copy(size_t input) const {
  const ParamSpec& own = spec(input);
  return own.role == ParamRole::adapter && !is_adapter_tensor(own.name) && own.factor != 0;
}

Builder& Builder::view(const std::string& name, const ModelConfig& config, const PartList& parts) {
  std::unique_ptr<Builder>& view = views_[name];
  if (view == nullptr) view.reset(new Builder(*this, config, parts));
  return *view;
}

Builder& Builder::without_adapters() {
  if (adapters_.empty()) return *this;
  return view(network_, config_, PartList({network_}));
}

Builder& Builder::part(const std::string& name) {
  std::vector<std::string> networks; // that the program reads
  for (const Input& input : all_) {
    const std::string& own = params_.physical()[input.index].spec.part;
    const bool is_new = std::ranges::find(networks, own) == networks.end();
    if (is_new && model_.parts().find(own)->kind == PartKind::network) networks.push_back(own);
  }
  if (std::ranges::find(networks, name) == networks.end())
    fail_unnamed({"network", "in the program"}, name, networks);
  return view(name, model_.parts().find(name)->config, PartList({name}));
}

std::vector<graph::Value> Builder::parameters() const {
  std::vector<graph::Value> values;
  for (const Input& input : all_) values.push_back(input.value);
  return values;
}

std::vector<size_t> Builder::indices() const {
  std::vector<size_t> indices;
  for (const Input& input : all_) indices.push_back(input.index);
  return indices;
}

float Builder::factor(size_t input) const {
  const ParamSpec& own = spec(input);
  const double weight = parts_.weight(own.part);
  if (weight == 1) return own.factor;
  const AdapterKind& kind = find_adapter_kind(model_.parts().find(own.part)->settings.kind);
  const AdapterTensor* tensor = kind.find_tensor(own.name);
  if (tensor != nullptr && !tensor->has_scale) return own.factor;
  return static_cast<float>(weight * static_cast<double>(own.factor));
}

graph::Value Builder::parameter(const std::string& physical_name) {
  const auto found = index_.find(physical_name);
  return found == index_.end() ? graph::Value{} : inputs_[found->second].value;
}

// Looks up rows of a table whose vocabulary is cut. Each rank looks up the rows that it has, and
// the other rows are 0.
graph::Value Builder::embed(graph::Value ids) {
  const Linear table = gathered(linear("embedding"), ids);
  graph::Value rows;
  if (table.partition.cuts()) {
    const int64_t own = table.weight.dim(0);
    const graph::AxisSet over(graph::Axis::tensor);
    const graph::Value count = graph::scalar_i32(graph_, static_cast<int32_t>(own)),
                       zero = graph::scalar_i32(graph_, 0);
    const graph::Value local = graph::subtract(
        ids, graph::multiply(graph::axis_index(graph_, graph::Axis::tensor), count));
    const graph::Value here = graph::logical_and(graph::greater_equal(local, zero),
                                                 graph::less(local, count)); // (batch, seq)
    const graph::Value found = graph::take(
        table.weight, graph::select(here, local, graph::broadcast(zero, ids.shape())), table.scale);
    std::vector<int64_t> column = ids.shape().dims(); // (batch, seq, 1)
    column.push_back(1);
    rows = graph::all_reduce(
        graph::multiply(found, graph::reshape(graph::convert(here, DType::f32), Shape(column))),
        over);
  } else {
    rows = graph::take(table.weight, ids, table.scale);
  }
  rows = rounded_embedding(rows);
  if (config_.embedding_scale == 1) return rows;
  return graph::multiply(rows, graph::scalar(graph_, static_cast<float>(config_.embedding_scale)));
}

graph::Value Builder::rounded_embedding(graph::Value x) const {
  return bf16_embeddings_ ? graph::convert(graph::convert(x, DType::bf16), DType::f32) : x;
}

Linear Builder::linear(const std::string& physical_name) {
  Linear made = find_linear(
      [&](const std::string& name) -> NamedParam {
        const auto found = index_.find(name);
        if (found == index_.end()) return {};
        return {inputs_[found->second].value, factor(found->second), spec(found->second).partition};
      },
      physical_name, adapters_);
  made.choice = row_adapters_;
  return made;
}

Head Builder::head(const std::string& name) {
  const std::vector<HeadConfig> heads = model_heads(config_);
  const HeadConfig& head = need_named(heads, name, &HeadConfig::name, {"head", "of the model"});
  Head made{linear(head.weight), static_cast<float>(head.softcap)};
  if (!made.adapters.empty()) fail(Code::unimplemented, "a head cannot have adapters");
  return made;
}

Linear Builder::input(const std::string& name) {
  need_named(config_.tower.inputs, name, &InputConfig::name, {"input", "of the network"});
  return linear("inputs." + name);
}

Head whole(const Head& head, graph::Value x) {
  return {whole(static_cast<const Linear&>(head), x), head.softcap};
}

graph::Value cross_entropy(const Head& given, graph::Value rows, graph::Value targets,
                           graph::Value count) {
  const Linear head = gathered(given, rows);
  if (!head.partition.cuts())
    return graph::linear_cross_entropy(rows, head.weight, head.bias, head.scale, targets, count,
                                       given.softcap);
  return graph::linear_cross_entropy_over(graph::Axis::tensor, head.partition.ranks, rows,
                                          head.weight, head.bias, head.scale, targets, count,
                                          given.softcap);
}

graph::Value Builder::logits(graph::Value hidden) {
  const Head own = head();
  graph::Value part = product(own, hidden);
  if (own.partition.cuts())
    part = graph::all_gather(part, graph::Axis::tensor, part.rank() - 1, own.partition.ranks, true);
  return graph::softcap(part, own.softcap);
}

namespace {

graph::Value norm(graph::Value x) { // over the last axis, kept
  return graph::sqrt(graph::sum(graph::multiply(x, x), {x.rank() - 1}, true));
}

} // namespace

graph::Value embedding_mix(Builder& builder, const EmbeddingMix& mix) {
  graph::Graph& graph = builder.graph();
  const int64_t batch = mix.ids.dim(0), seq = mix.ids.dim(1), width = mix.ids.dim(2),
                hidden = mix.hard.dim(2);
  const auto mask_id = static_cast<int32_t>(builder.config().mask_token_id);
  const graph::Value mask = builder.embed(
      graph::broadcast(graph::scalar_i32(graph, mask_id), Shape{1, 1})); // (1, 1, hidden)
  const graph::Value zero = graph::scalar(graph, 0.0f), one = graph::scalar(graph, 1.0f);
  const auto rounded = [&](graph::Value x) { return builder.rounded_embedding(x); };
  // dllm-jax rounds the weight of one token to the type of the embeddings, and leaves the weights
  // of several tokens as they are. It rounds each factor of the mixture, but not its length.
  const graph::Value weights = width == 1 ? rounded(mix.weights) : mix.weights;
  const graph::Value rest = graph::maximum(graph::subtract(one, graph::sum(weights, {2}, true)),
                                           zero); // (batch, seq, 1)
  graph::Value v, target;
  for (int64_t k = 0; k < width; ++k) {
    const graph::Value ids = graph::reshape(graph::slice_axis(mix.ids, 2, k, k + 1), {batch, seq});
    const graph::Value weight = graph::slice_axis(weights, 2, k, k + 1);
    const graph::Value token = builder.embed(ids);
    const graph::Value part = rounded(graph::multiply(rounded(weight), token));
    const graph::Value length = graph::multiply(weight, norm(token));
    v = v.defined() ? graph::add(v, part) : part;
    target = target.defined() ? graph::add(target, length) : length;
  }
  v = rounded(graph::add(rounded(v), rounded(graph::multiply(rounded(rest), mask))));
  target = graph::add(target, graph::multiply(rest, norm(mask)));
  const graph::Value scale =
      graph::divide(target, graph::add(norm(v), graph::scalar(graph, 1e-6f)));
  const graph::Value soft = rounded(graph::multiply(v, rounded(scale)));
  const graph::Value on =
      graph::broadcast(graph::reshape(mix.on, {batch, seq, 1}), Shape{batch, seq, hidden});
  return graph::select(on, soft, mix.hard);
}

} // namespace dllm::model
