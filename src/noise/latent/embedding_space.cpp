#include "noise/latent/embedding_space.h"

#include "graph/ops.h"

#include <nlohmann/json.hpp>

namespace dllm::noise {
namespace {

constexpr float kSmall = 1e-12f; // an embedding of zeros stays zeros

graph::Value chosen(graph::Value given, graph::Value clean, graph::Value other) {
  const graph::Value rest = graph::subtract(graph::scalar(*given.graph, 1.0f), given);
  return graph::add(graph::multiply(clean, given), graph::multiply(other, rest));
}

} // namespace

Json inlet_config(const model::ModelConfig& base) {
  const Json vectors = {{"size", base.hidden_size}, {"bias", false}};
  return {
      {"model_type", "dllm_tower"},
      {"hidden_size", base.hidden_size},
      {"num_hidden_layers", 0},
      {"num_attention_heads", 1},
      {"initializer_range", base.init_std},
      {"level", "added"},
      {"last_norm", false},
      {"inputs",
       {{"numbers", vectors}, {"previous", vectors}, {"given", {{"size", 1}, {"bias", true}}}}}};
}

graph::Value normed_embeddings(model::Builder& base) {
  const model::Linear own = base.linear("embedding");
  const graph::Value table = model::whole(own, own.weight).weight;
  return graph::rms_norm(graph::convert(table, DType::f32), {}, kSmall);
}

graph::Value inlet_stream(model::Builder& base, const NoisyEmbeddings& in) {
  model::Builder& inlet = base.part(kInletPart);
  const graph::Value numbers = chosen(in.given, in.clean, in.numbers),
                     previous = chosen(in.given, in.clean, in.previous);
  model::ForwardInputs inputs;
  inputs.embeddings = graph::add(graph::add(model::product(inlet.input("numbers"), numbers),
                                            model::product(inlet.input("previous"), previous)),
                                 model::product(inlet.input("given"), in.given));
  inputs.levels = in.levels;
  return inlet.forward(inputs).hidden;
}

graph::Value expected_embeddings(graph::Value table, graph::Value logits) {
  return graph::dot(graph::softmax(logits, 1), table);
}

} // namespace dllm::noise
