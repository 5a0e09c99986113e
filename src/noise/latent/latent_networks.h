#pragma once
// The networks of a latent model in one graph (LDLM, arXiv 2605.07933), for its loss and for its
// decoder. The hidden states of a language model become latents, and latents become tokens:
//
//   states --encoder--> latents --decoder--> states --reader--> tokens
//
// A denoiser predicts the latents from noised ones. All are parts of the model, and towers
// (docs/decisions/0025-towers.md).

#include "base/json.h"
#include "base/options.h"
#include "model/network/builder.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::noise {

namespace latent_part {
inline constexpr const char* kEncoder = "encoder";
inline constexpr const char* kDecoder = "decoder";
inline constexpr const char* kReader = "reader";
inline constexpr const char* kDenoiser = "denoiser";
} // namespace latent_part

// Returns the names of all four parts.
std::vector<std::string> latent_parts();

// Returns the options of sizes: latents, latent_dim, depth, ...
std::vector<OptionSpec> latent_size_options();
// Returns the configs of the four parts for a base model, from options of this list.
std::map<std::string, Json> latent_configs(const Options& options, const model::ModelConfig& base);

// The sizes of the latents of a model with these parts.
struct LatentShape {
  int64_t latents = 0; // vectors of one text
  int64_t size = 0;    // numbers of one vector
};
LatentShape latent_shape(model::Builder& base);
// Returns the number of positions that the decoder makes.
int64_t latent_positions(model::Builder& base);
// Returns true when the denoiser looks at a prompt.
bool reads_prompt(model::Builder& base);

// Returns the hidden states of the base f32(batch, seq, hidden) before `layer` of the list
// (embedding, layer 1, ..., last layer after the last norm). A negative number counts from the end
// of the list. A layer before the first one is the first one.
graph::Value base_states(model::Builder& base, const model::ForwardInputs& tokens, int64_t layer);

// Returns states normed without weights, with the sinusoids of their positions: what networks look
// at. `states` is f32(batch, seq, hidden).
graph::Value placed_states(graph::Value states);

// Returns the latents f32(batch, latents, size) of states f32(batch, keys, hidden). `keys` is
// u8(batch, keys), 1 for tokens of the text.
graph::Value encode_states(model::Builder& base, graph::Value states, graph::Value keys);
// Returns the states f32(batch, positions, hidden) of latents f32(batch, latents, size).
graph::Value decode_latents(model::Builder& base, graph::Value latents);
// Returns what head "lm" of the reader makes tokens of, f32(batch, positions, width), from decoded
// states.
graph::Value read_states(model::Builder& base, graph::Value decoded);
model::Head reader_head(model::Builder& base);

// What the denoiser reads of a prompt: placed states of the base, which saw the given tokens alone,
// f32(batch, keys, hidden), and u8(batch, keys), 1 for given tokens. A row without given tokens is
// unconditional.
struct LatentPrompt {
  graph::Value states, given; // undefined for a denoiser that reads no prompt
};
// Runs the base on tokens of which it sees the given ones alone. The gradient stops. `layer` is
// that of base_states().
LatentPrompt latent_prompt(model::Builder& base, model::ForwardInputs tokens, graph::Value given,
                           int64_t layer);
struct DenoiserInputs {
  graph::Value noised; // f32(batch, latents, size)
  graph::Value levels; // f32(batch): times in [0, 1]
  // f32(batch, latents, size): an earlier estimate; 0, or undefined: none.
  graph::Value previous;
  LatentPrompt prompt;
  // u8(batch, 1, 1), with dLLM-castlehill's networks alone: 1: the row has an estimate. A row
  // without one skips the matrices into the stream. Undefined: every row goes through them.
  graph::Value projects;
};
// Returns whether the denoiser is dLLM-castlehill's, which skips its matrices into the stream where
// a row has no estimate.
bool skips_projection(model::Builder& base);
// Returns the predicted latents f32(batch, latents, size).
graph::Value denoise(model::Builder& base, const DenoiserInputs& inputs);

} // namespace dllm::noise
