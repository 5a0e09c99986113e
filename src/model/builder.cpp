#include "model/builder.h"

#include "base/error.h"
#include "graph/ops.h"

namespace dllm::model {

Builder::Builder(graph::Graph& graph, const Model& model) : graph_(graph), config_(model.config()) {
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

Head Builder::head() {
  const std::string name = config_.tie_embeddings ? "embedding" : "head";
  return {parameter(name), config_.tie_embeddings ? graph::Value{} : parameter("head.bias"),
          scale(name), static_cast<float>(config_.logit_softcap)};
}

graph::Value Builder::logits(graph::Value hidden) {
  const Head own = head();
  return graph::softcap(graph::linear(hidden, own.weight, own.bias, own.scale), own.softcap);
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
