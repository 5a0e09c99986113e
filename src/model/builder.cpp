#include "model/builder.h"

#include "base/error.h"
#include "graph/ops.h"

namespace dllm::model {

Builder::Builder(graph::Graph& graph, const Model& model)
    : graph_(graph), config_(model.config()), params_(model.params()),
      stacks_(state_stacks(model.config())) {
  for (const ParamStore::Physical& entry : model.params().physical()) {
    index_[entry.name] = values_.size();
    names_.push_back(entry.name);
    values_.push_back(graph_.input("param:" + entry.name, entry.type(), true));
  }
}

graph::Value Builder::parameter(const std::string& physical_name) {
  const auto found = index_.find(physical_name);
  return found == index_.end() ? graph::Value{} : values_[found->second];
}

graph::Value Builder::embed(graph::Value ids) {
  const graph::Value rows = graph::take(parameter("embedding"), ids, scale("embedding"));
  if (config_.embedding_scale == 1) return rows;
  return graph::multiply(rows, graph::scalar(graph_, static_cast<float>(config_.embedding_scale)));
}

Linear Builder::linear(const std::string& physical_name) {
  return find_linear(
      [&](const std::string& name) -> NamedParam {
        const auto found = index_.find(name);
        if (found == index_.end()) return {};
        const ParamSpec& spec = params_.physical()[found->second].spec;
        return {values_[found->second], spec.factor, spec.partition};
      },
      physical_name);
}

Head Builder::head(const std::string& name) {
  std::string names;
  for (const HeadConfig& head : model_heads(config_)) {
    names += (names.empty() ? "" : " ") + head.name;
    if (head.name != name) continue;
    Head made{linear(head.weight), static_cast<float>(head.softcap)};
    if (!made.adapters.empty()) fail(Code::unimplemented, "a head cannot have adapters");
    return made;
  }
  fail_with_hint("its heads: " + names, Code::not_found, "the model has no head named {}", name);
}

graph::Value Builder::logits(graph::Value hidden) {
  const Head own = head();
  return graph::softcap(product(own, hidden), own.softcap);
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
  const graph::Value rest = graph::maximum(graph::subtract(one, graph::sum(mix.weights, {2}, true)),
                                           zero); // (batch, seq, 1)
  graph::Value v, target;
  for (int64_t k = 0; k < width; ++k) {
    const graph::Value ids = graph::reshape(graph::slice_axis(mix.ids, 2, k, k + 1), {batch, seq});
    const graph::Value weight = graph::slice_axis(mix.weights, 2, k, k + 1);
    const graph::Value token = builder.embed(ids);
    const graph::Value part = graph::multiply(weight, token);
    const graph::Value length = graph::multiply(weight, norm(token));
    v = v.defined() ? graph::add(v, part) : part;
    target = target.defined() ? graph::add(target, length) : length;
  }
  v = graph::add(v, graph::multiply(rest, mask));
  target = graph::add(target, graph::multiply(rest, norm(mask)));
  const graph::Value scale =
      graph::divide(target, graph::add(norm(v), graph::scalar(graph, 1e-6f)));
  const graph::Value soft = graph::multiply(v, scale);
  const graph::Value on =
      graph::broadcast(graph::reshape(mix.on, {batch, seq, 1}), Shape{batch, seq, hidden});
  return graph::select(on, soft, mix.hard);
}

} // namespace dllm::model
