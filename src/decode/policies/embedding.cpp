// Samples models of objective embedding (noise/objectives/embedding.cpp). The array of a request
// has the embedding of each position, and the base predicts all tokens in every step.

#include "decode/array/array_policy.h"
#include "decode/pass/pass_program.h"
#include "decode/policies/policies.h"
#include "graph/ops.h"
#include "noise/latent/embedding_space.h"

namespace dllm::decode {
namespace {

class EmbeddingRule final : public ArrayRule {
public:
  int64_t width(const model::ModelConfig& config) const override { return config.hidden_size; }
  int64_t states_width(const model::ModelConfig& config) const override {
    return config.hidden_size;
  }
  bool self_conditions() const override { return true; }
  std::vector<std::string> other_parts() const override { return {noise::kInletPart}; }

  Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const override {
    const Shape wide = array.numbers.shape();
    const graph::Value table = noise::normed_embeddings(rows.builder);
    noise::NoisyEmbeddings in;
    in.numbers = array.numbers;
    in.previous = array.previous;
    in.clean = graph::take(table, rows.ids);
    in.given = graph::reshape(graph::convert(rows.given, DType::f32), {wide[0], wide[1], 1});
    in.levels = graph::reshape(array.level.time, {wide[0]});
    const graph::Value stream = noise::inlet_stream(rows.builder, in);
    const graph::Value hidden = window_states(rows.builder, rows.shape, {}, stream).hidden;
    const graph::Value clean = noise::expected_embeddings(table, rows.builder.logits(hidden));
    return {graph::reshape(clean, wide), graph::reshape(hidden, wide)};
  }
};

std::unique_ptr<Policy> make_embedding(const PolicySetup& setup) {
  return std::make_unique<ArrayPolicy>(setup, std::make_shared<EmbeddingRule>());
}

} // namespace

PolicyKind policy_files::embedding() {
  return {"embedding", make_embedding, {trained_schedule_option()}, false};
}

} // namespace dllm::decode
