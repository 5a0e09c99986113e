#pragma once
// The networks of a Cola model in one graph (arXiv 2605.06548), for its loss and for its decoder. A
// text becomes one latent vector for each token, in blocks, and a prior makes latents block after
// block:
//
//   states --encoder--> mean and log variance of z --decoder--> tokens,   noise --prior--> z
//
// All three see their own block and the blocks before it. They are parts of the model, and towers
// (docs/decisions/0025-towers.md).

#include "base/json.h"
#include "base/options.h"
#include "model/network/builder.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::noise {

namespace cola_part {
inline constexpr const char* kEncoder = "encoder";
inline constexpr const char* kDecoder = "decoder";
inline constexpr const char* kPrior = "prior";
} // namespace cola_part

std::vector<std::string> cola_parts();

// Returns the options of sizes and of what is encoded: latent_dim, source, ...
std::vector<OptionSpec> cola_size_options();
// Returns the configs of the parts for a base model, from options of this list.
std::map<std::string, Json> cola_configs(const Options& options, const model::ModelConfig& base);
// Fails with invalid_argument when the options describe other networks than those of the model.
void check_cola_networks(const Options& options, model::Builder& base);

// Rows of tokens, and what every network sees: `tokens.mask` without its attention terms.
struct ColaTokens {
  model::ForwardInputs tokens; // of the base, with the attention of its states
  graph::Mask visible;         // what else hides keys: padding, other segments
  graph::Value block;          // i32(): latents of a block
};

// The distribution of the latents, f32(batch, seq, width).
struct ColaPosterior {
  graph::Value mean, log_variance;
};
// Returns it for tokens, through the base where its states are encoded. `detach`: no gradient
// reaches the base.
ColaPosterior cola_encode_tokens(model::Builder& base, const ColaTokens& tokens, bool detach);

// Returns what head "lm" of the decoder reads, f32(batch, seq, hidden).
graph::Value cola_decode(model::Builder& base, graph::Value latents, graph::Value positions,
                         const graph::Mask& mask);

// Runs the prior on latents f32(batch, seq, width). `prior` has everything but its stream.
model::ForwardOutputs cola_prior_pass(model::Builder& base, const model::ForwardInputs& prior,
                                      graph::Value latents);
// Returns the velocity noise - z that the prior predicts, f32(batch, seq, width).
graph::Value cola_velocity(model::Builder& base, const model::ForwardInputs& prior,
                           graph::Value latents);

} // namespace dllm::noise
