#pragma once
// The networks of term `cola`: an encoder of hidden states into global and local latents, and a
// denoiser of them.

#include "base/json.h"
#include "model/network/builder.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::noise {

// Names of the parts.
inline constexpr const char* kColaGlobal = "cola_global";
inline constexpr const char* kColaLocal = "cola_local";
inline constexpr const char* kColaDenoiser = "cola_denoiser";

struct ColaSizes {
  int64_t hidden = 0;            // of a state and of a latent
  int64_t global = 0, local = 0; // latents
  int64_t encoder_layers = 0, layers = 0, heads = 0;
  int64_t encoder_feedforward = 0, feedforward = 0;
  int64_t level_size = 256; // of the sinusoid of a time

  int64_t latents() const { return global + local; }
};
// Returns the configs of the parts.
std::map<std::string, Json> cola_towers(const ColaSizes& sizes);

enum class ColaKind {
  block_causal, // a local latent sees its block, the blocks before it, and the global latents
  card,         // a latent sees those before it and itself
  fast_block,   // as block_causal; the latent before a block is added to the block
};

struct ColaHead {
  ColaKind kind = ColaKind::block_causal;
  int64_t block = 16;
  // true: the denoiser predicts the latents, whose signal^2 is 1 - t^2. false: it predicts noise -
  // latents, and the array is (1 - t) latents + t noise.
  bool predicts_clean = false;
};

// Returns i32(global + local): latent i sees the latents before limit[i].
std::vector<int32_t> cola_limits(int64_t global, int64_t local, const ColaHead& head);

// Returns the first latent that a row of kind `card` counts: with N = max(1, floor(count t)), the
// last max(1, floor(N share)) are counted. A share of 1 or more counts at most all.
int64_t cola_tail_start(int64_t count, double t, double share);

struct ColaRows {
  graph::Value states; // f32(batch, seq, hidden)
  graph::Mask visible; // the states that the encoder sees
  graph::Value times;  // f32(batch)
  graph::Value noise;  // f32(batch, latents, hidden); undefined: drawn from `keys`
  graph::Value keys;   // u32(batch, 2)
};
struct ColaLatents {
  graph::Value global, local;     // f32(batch, n, hidden)
  graph::Value noisy, prediction; // f32(batch, latents, hidden)
  graph::Value errors;            // f32(batch, latents): the mean square over the numbers
};
ColaLatents cola_latents(model::Builder& builder, const ColaHead& head, const ColaRows& rows);

} // namespace dllm::noise
