#pragma once
// One training pass over the networks of a latent model: autoencoder with noise, and denoiser. The
// objective adds the noise, the times and what is counted.

#include "noise/latent/latent_networks.h"

namespace dllm::noise {

struct LatentPassInputs {
  // f32(batch, seq, hidden): what the decoder shall make, and what the encoder reads.
  graph::Value target, context;
  graph::Value keys;             // u8(batch, seq), 1 for tokens of the text
  graph::Value decoder_noise;    // f32(batch, latents, size)
  graph::Value noise;            // f32(batch, latents, size), standard normal
  graph::Value levels, alpha;    // f32(batch): the time, and the share of the signal
  graph::Value conditioned;      // f32(batch): 1: the row has an own estimate
  graph::Value encoder_gradient; // f32(batch): factor of the gradient into the encoder
  LatentPrompt prompt;
  bool conditions = true;        // false: `conditioned` is 0 everywhere, and no estimate is made
  bool skips_projection = false; // as dLLM-castlehill, without an estimate
};

struct LatentPass {
  graph::Value latents;          // f32(batch, latents, size)
  graph::Value decoded;          // f32(batch, positions, hidden)
  graph::Value read;             // f32(batch, positions, width): what the head reads
  graph::Value noised, previous; // f32(batch, latents, size); previous: 0 without an estimate
  graph::Value predicted;        // f32(batch, latents, size)
  graph::Value diffusion;        // f32(batch): mean squared error of the prediction
  graph::Value states;           // f32(batch, n): mean squared error of each decoded state, of
                                 // the first n = min(seq, positions)
};

// Returns states f32(batch, seq, hidden) normed by running statistics f32(3): count, mean and
// variance. At count 0 a row is normed by its own mean and variance over `keys`
// f32(batch, seq, 1).
graph::Value normed_states(graph::Value states, graph::Value statistics, graph::Value keys);

// A figure f32(batch) that shows how training goes.
struct LatentFigure {
  const char* name;
  graph::Value of_rows;
};
// Returns the mean length of the latents and their standard deviation, the mean cosine between
// predicted and true latents, and the standard deviation of the latents over that of the error.
std::vector<LatentFigure> latent_figures(const LatentPass& pass);

LatentPass latent_pass(model::Builder& base, const LatentPassInputs& inputs);

} // namespace dllm::noise
