#include "noise/latent/latent_networks.h"

#include "graph/ops.h"

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

using model::Builder;
using model::ForwardInputs;

bool has_head(const Builder& network, const std::string& name) {
  return std::ranges::any_of(network.config().other_heads,
                             [&](const model::HeadConfig& head) { return head.name == name; });
}

// Returns the result of a network: of its head "latent", where it has one.
graph::Value latent_result(Builder& network, graph::Value hidden) {
  return has_head(network, "latent") ? model::product(network.head("latent"), hidden) : hidden;
}

// Returns sines, then cosines, of the positions: f32(1, seq, width).
graph::Value position_sinusoids(graph::Graph& graph, int64_t seq, int64_t width) {
  const int64_t half = (width + 1) / 2;
  Tensor made(DType::f32, {1, seq, width});
  for (int64_t i = 0; i < seq; ++i) {
    for (int64_t k = 0; k < width; ++k) {
      const double rate =
          std::exp(-std::log(10000.0) * static_cast<double>(k % half) / static_cast<double>(half));
      const double angle = static_cast<double>(i) * rate;
      made.mutable_as<float>()[static_cast<size_t>(i * width + k)] =
          static_cast<float>(k < half ? std::sin(angle) : std::cos(angle));
    }
  }
  return graph::constant(graph, made);
}

} // namespace

std::vector<std::string> latent_parts() {
  return {latent_part::kEncoder, latent_part::kDecoder, latent_part::kReader,
          latent_part::kDenoiser};
}

LatentShape latent_shape(Builder& base) {
  const model::ModelConfig &encoder = base.part(latent_part::kEncoder).config(),
                           &decoder = base.part(latent_part::kDecoder).config();
  return {encoder.tower.latents, decoder.tower.context};
}

int64_t latent_positions(Builder& base) {
  return base.part(latent_part::kDecoder).config().tower.latents;
}

bool reads_prompt(Builder& base) {
  return base.part(latent_part::kDenoiser).config().tower.context > 0;
}

graph::Value base_states(Builder& base, const ForwardInputs& tokens, int64_t layer) {
  const int64_t layers = base.config().layers;
  const int64_t at =
      layer >= 0 ? std::min(layer, layers) : std::max(layers + 1 + layer, int64_t{1});
  const model::ForwardOutputs made = base.forward(tokens, at < layers);
  return at < layers ? made.taps.at(static_cast<size_t>(at)) : made.hidden;
}

graph::Value placed_states(graph::Value states) {
  const graph::Value normed = graph::layer_norm(states, {}, {}, 1e-5f);
  return graph::add(normed, position_sinusoids(*states.graph, states.dim(1), states.dim(2)));
}

graph::Value encode_states(Builder& base, graph::Value states, graph::Value keys) {
  Builder& encoder = base.part(latent_part::kEncoder);
  ForwardInputs inputs;
  inputs.context = states;
  if (keys.defined()) inputs.context_mask.and_key_keep(keys);
  return latent_result(encoder, encoder.forward(inputs).hidden);
}

LatentPrompt latent_prompt(Builder& base, ForwardInputs tokens, graph::Value given, int64_t layer) {
  // Given tokens are tokens of the text, so `given` stands for the keys of the text.
  std::erase_if(tokens.mask.terms,
                [](const graph::MaskTerm& term) { return term.kind == graph::MaskKind::key_keep; });
  tokens.mask.and_key_keep(given);
  return {graph::stop_gradient(placed_states(base_states(base, tokens, layer))), given};
}

graph::Value decode_latents(Builder& base, graph::Value latents) {
  ForwardInputs inputs;
  inputs.context = latents;
  return base.part(latent_part::kDecoder).forward(inputs).hidden;
}

graph::Value read_states(Builder& base, graph::Value decoded) {
  Builder& reader = base.part(latent_part::kReader);
  ForwardInputs inputs;
  inputs.embeddings = decoded;
  if (reader.config().tower.context > 0) inputs.context = decoded;
  if (reader.config().attention == model::AttentionKind::causal)
    inputs.mask = graph::Mask::causal();
  return reader.forward(inputs).hidden;
}

model::Head reader_head(Builder& base) {
  return base.part(latent_part::kReader).head("lm");
}

bool skips_projection(Builder& base) {
  return !has_head(base.part(latent_part::kDenoiser), "latent");
}

graph::Value denoise(Builder& base, const DenoiserInputs& inputs) {
  Builder& denoiser = base.part(latent_part::kDenoiser);
  graph::Value stream = model::product(denoiser.input("noised"), inputs.noised);
  if (inputs.previous.defined())
    stream = graph::add(stream, model::product(denoiser.input("previous"), inputs.previous));
  if (inputs.projects.defined()) {
    stream =
        graph::select(graph::broadcast(inputs.projects, stream.shape()), stream, inputs.noised);
  }
  ForwardInputs pass;
  pass.embeddings = stream;
  pass.levels = inputs.levels;
  if (inputs.prompt.states.defined()) {
    pass.context = inputs.prompt.states;
    pass.context_mask.and_key_keep(inputs.prompt.given);
  }
  return latent_result(denoiser, denoiser.forward(pass).hidden);
}

} // namespace dllm::noise
