#include "noise/terms/cola_head.h"

#include "graph/ops.h"
#include "noise/rows/row_normals.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

using graph::Value;

Json cola_encoder(const ColaSizes& sizes, int64_t latents) {
  return {{"model_type", "dllm_tower"},
          {"hidden_size", sizes.hidden},
          {"num_hidden_layers", sizes.encoder_layers},
          {"num_attention_heads", sizes.heads},
          {"intermediate_size", sizes.encoder_feedforward},
          {"hidden_act", "gelu"},
          {"mixer", "self_cross_attention"},
          {"context_size", sizes.hidden},
          {"latents", latents},
          {"last_norm", false}};
}

} // namespace

std::map<std::string, Json> cola_towers(const ColaSizes& sizes) {
  // The matrix that joins local latents with the mean of the global ones is an input of the
  // denoiser, and the one that moves a latent to the next block is a head of it.
  const Json denoiser = {{"model_type", "dllm_tower"},
                         {"hidden_size", sizes.hidden},
                         {"num_hidden_layers", sizes.layers},
                         {"num_attention_heads", sizes.heads},
                         {"intermediate_size", sizes.feedforward},
                         {"hidden_act", "gelu_pytorch_tanh"},
                         {"level", "adaptive"},
                         {"level_size", sizes.level_size},
                         {"inputs", {{"fusion", {{"size", 2 * sizes.hidden}}}}},
                         {"dllm",
                          {{"heads",
                            {{"latents", {{"rows", sizes.hidden}, {"bias", true}, {"zero", true}}},
                             {"shift", {{"rows", sizes.hidden}, {"zero", true}}}}}}}};
  return {{kColaGlobal, cola_encoder(sizes, sizes.global)},
          {kColaLocal, cola_encoder(sizes, sizes.local)},
          {kColaDenoiser, denoiser}};
}

std::vector<int32_t> cola_limits(int64_t global, int64_t local, const ColaHead& head) {
  std::vector<int32_t> limits;
  for (int64_t i = 0; i < global + local; ++i) {
    int64_t limit = global;
    if (head.kind == ColaKind::card)
      limit = i + 1;
    else if (i >= global)
      limit = global + std::min(local, ((i - global) / head.block + 1) * head.block);
    limits.push_back(static_cast<int32_t>(limit));
  }
  return limits;
}

int64_t cola_tail_start(int64_t count, double t, double share) {
  const auto whole = [](double x) { return static_cast<int64_t>(std::floor(x)); };
  const int64_t noised = std::max<int64_t>(1, whole(static_cast<double>(count) * t));
  return count - std::clamp<int64_t>(whole(static_cast<double>(noised) * share), 1, count);
}

namespace {

Value cola_encode(model::Builder& network, const ColaRows& rows) {
  model::ForwardInputs inputs;
  inputs.context = rows.states;
  inputs.context_mask = rows.visible;
  return network.forward(inputs).hidden;
}

// Returns one number for each row, f32(batch, 1, 1).
Value column(Value x) {
  return graph::reshape(x, {x.dim(0), 1, 1});
}

// Returns the factors of latents and noise at times t.
std::pair<Value, Value> noise_level(const ColaHead& head, Value t) {
  graph::Graph& graph = *t.graph;
  const Value one = graph::scalar(graph, 1.0f);
  if (!head.predicts_clean) return {graph::subtract(one, t), t};
  const auto root = [&](Value square) {
    return graph::sqrt(graph::maximum(square, graph::scalar(graph, 1e-6f)));
  };
  const Value square = graph::multiply(t, t);
  return {root(graph::subtract(one, square)), root(square)};
}

// Adds the latent before a block to the latents of the block, through a matrix. The first block
// gets the last global latent, at its first place alone.
Value shifted(model::Builder& network, Value noisy, int64_t global, int64_t block) {
  const int64_t batch = noisy.dim(0), count = noisy.dim(1), local = count - global;
  std::vector<int32_t> sources;
  Tensor on(DType::f32, {1, count, 1});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t inside = i - global;
    const bool begins = inside == 0 && global > 0, follows = inside >= block;
    sources.push_back(static_cast<int32_t>(
        begins ? global - 1 : (follows ? global + inside / block * block - 1 : 0)));
    on.mutable_as<float>()[static_cast<size_t>(i)] = begins || follows ? 1.0f : 0.0f;
  }
  if (local == 0) return noisy;
  graph::Graph& graph = *noisy.graph;
  const Value rows = graph::take(graph::transpose(noisy, {1, 0, 2}),
                                 graph::constant(graph, Tensor::from(Shape{count}, sources)));
  const Value before =
      graph::multiply(graph::transpose(rows, {1, 0, 2}), graph::constant(graph, on));
  const Value moved = model::product(network.head("shift"), before);
  return graph::add(noisy, graph::reshape(moved, {batch, count, noisy.dim(2)}));
}

} // namespace

ColaLatents cola_latents(model::Builder& builder, const ColaHead& head, const ColaRows& rows) {
  graph::Graph& graph = builder.graph();
  model::Builder& denoiser = builder.part(kColaDenoiser);
  ColaLatents made;
  made.global = cola_encode(builder.part(kColaGlobal), rows);
  const Value local = cola_encode(builder.part(kColaLocal), rows);
  const Value mean = graph::broadcast(graph::mean(made.global, {1}, true), local.shape());
  made.local = model::product(denoiser.input("fusion"), graph::concat({local, mean}, 2));
  const Value clean = graph::concat({made.global, made.local}, 1);
  const int64_t batch = clean.dim(0), count = clean.dim(1), global = made.global.dim(1);

  const Value noise = rows.noise.defined() ? rows.noise : row_normals(rows.keys, clean.shape(), 1);
  const auto [signal, sigma] = noise_level(head, column(rows.times));
  made.noisy = graph::add(graph::multiply(signal, clean), graph::multiply(sigma, noise));
  if (head.kind == ColaKind::fast_block)
    made.noisy = shifted(denoiser, made.noisy, global, head.block);

  const std::vector<int32_t> limits = cola_limits(global, count - global, head);
  const Value limit = graph::broadcast(
      graph::constant(graph, Tensor::from(Shape{1, count}, limits)), {batch, count});
  model::ForwardInputs inputs;
  inputs.embeddings = made.noisy;
  inputs.levels = rows.times;
  inputs.mask.and_key_limit(graph::vary(limit, made.noisy.type().axes));
  made.prediction = model::product(denoiser.head("latents"), denoiser.forward(inputs).hidden);
  const Value target = head.predicts_clean ? clean : graph::subtract(noise, clean);
  const Value apart = graph::subtract(made.prediction, target);
  made.errors = graph::mean(graph::multiply(apart, apart), {2});
  return made;
}

} // namespace dllm::noise
