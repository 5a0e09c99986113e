#include "noise/latent/latent_pass.h"

#include "graph/ops.h"

#include <algorithm>

namespace dllm::noise {
namespace {

// Returns numbers of rows f32(batch) as f32(batch, 1, 1).
graph::Value by_row(graph::Value x) {
  return graph::reshape(x, {x.dim(0), 1, 1});
}

graph::Value squared(graph::Value x) {
  return graph::multiply(x, x);
}

// Returns x, whose gradient is multiplied by factor f32(batch).
graph::Value with_gradient(graph::Value x, graph::Value factor) {
  const graph::Value still = graph::stop_gradient(x);
  return graph::add(still, graph::multiply(graph::subtract(x, still), by_row(factor)));
}

} // namespace

graph::Value normed_states(graph::Value states, graph::Value statistics, graph::Value keys) {
  graph::Graph& graph = *states.graph;
  const auto at = [&](int64_t i) {
    return graph::reshape(graph::slice_axis(statistics, 0, i, i + 1), {1, 1, 1});
  };
  const graph::Value width = graph::scalar(graph, static_cast<float>(states.dim(2)));
  const graph::Value count = graph::maximum(graph::multiply(graph::sum(keys, {1, 2}, true), width),
                                            graph::scalar(graph, 1.0f));
  const auto row_mean = [&](graph::Value x) {
    return graph::divide(graph::sum(graph::multiply(x, keys), {1, 2}, true), count);
  };
  const graph::Value own_mean = row_mean(states);
  const graph::Value own_variance = row_mean(squared(graph::subtract(states, own_mean)));
  const graph::Value zero = graph::full(graph, own_mean.shape(), 0.0f);
  const graph::Value known = graph::greater(graph::add(zero, at(0)), zero);
  const graph::Value mean = graph::select(known, graph::add(zero, at(1)), own_mean);
  const graph::Value variance = graph::select(known, graph::add(zero, at(2)), own_variance);
  const graph::Value scale = graph::maximum(graph::sqrt(variance), graph::scalar(graph, 1e-6f));
  return graph::divide(graph::subtract(states, mean), scale);
}

std::vector<LatentFigure> latent_figures(const LatentPass& pass) {
  graph::Graph& graph = *pass.latents.graph;
  const graph::Value z = graph::stop_gradient(pass.latents),
                     found = graph::stop_gradient(pass.predicted);
  const auto lengths = [](graph::Value x) { return graph::sqrt(graph::sum(squared(x), {2})); };
  const auto deviation = [](graph::Value x) {
    const graph::Value apart = graph::subtract(x, graph::mean(x, {1, 2}, true));
    return graph::sqrt(graph::mean(squared(apart), {1, 2}));
  };
  const graph::Value least = graph::scalar(graph, 1e-12f);
  const graph::Value both = graph::multiply(lengths(z), lengths(found));
  const graph::Value cosine =
      graph::divide(graph::sum(graph::multiply(z, found), {2}), graph::maximum(both, least));
  const graph::Value error = deviation(graph::subtract(found, z));
  return {{"latent_norm", graph::mean(lengths(z), {1})},
          {"latent_std", deviation(z)},
          {"cosine", graph::mean(cosine, {1})},
          {"snr", graph::divide(deviation(z), graph::maximum(error, least))}};
}

LatentPass latent_pass(model::Builder& base, const LatentPassInputs& inputs) {
  LatentPass made;
  graph::Graph& graph = base.graph();
  made.latents = encode_states(base, inputs.context, inputs.keys);
  made.decoded = decode_latents(base, graph::add(made.latents, inputs.decoder_noise));
  made.read = read_states(base, graph::stop_gradient(made.decoded));

  const graph::Value clean = inputs.encoder_gradient.defined()
                                 ? with_gradient(made.latents, inputs.encoder_gradient)
                                 : made.latents;
  const graph::Value one = graph::scalar(graph, 1.0f);
  made.noised = graph::add(
      graph::multiply(by_row(graph::sqrt(inputs.alpha)), clean),
      graph::multiply(by_row(graph::sqrt(graph::subtract(one, inputs.alpha))), inputs.noise));
  DenoiserInputs denoising{made.noised, inputs.levels, {}, inputs.prompt, {}};
  if (inputs.conditions) {
    DenoiserInputs first = denoising;
    const graph::Value none = graph::full(graph, {made.noised.dim(0), 1, 1}, 0.0f);
    const graph::Value own = by_row(inputs.conditioned);
    if (inputs.skips_projection) first.projects = graph::greater(none, none);
    made.previous = graph::multiply(graph::stop_gradient(denoise(base, first)), own);
    denoising.previous = made.previous;
    if (inputs.skips_projection) denoising.projects = graph::greater(own, none);
  } else if (inputs.skips_projection) {
    const graph::Value none = graph::full(graph, {made.noised.dim(0), 1, 1}, 0.0f);
    denoising.projects = graph::greater(none, none);
  }
  made.predicted = denoise(base, denoising);
  made.diffusion = graph::mean(squared(graph::subtract(made.predicted, clean)), {1, 2});

  const int64_t common = std::min(inputs.target.dim(1), made.decoded.dim(1));
  const auto first_of = [&](graph::Value x) { return graph::slice_axis(x, 1, 0, common); };
  made.states =
      graph::mean(squared(graph::subtract(first_of(made.decoded), first_of(inputs.target))), {2});
  return made;
}

} // namespace dllm::noise
