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

} // namespace dllm::model
