// The sizes of the networks of a latent model.

#include "base/error.h"
#include "noise/latent/latent_networks.h"

#include <nlohmann/json.hpp>

namespace dllm::noise {
namespace {

// Returns the option, or where it is 0 a part of the layers of the base, at least 1.
int64_t depth_of(const Options& options, const char* key, int64_t layers) {
  return options.i64(key) > 0 ? options.i64(key) : std::max<int64_t>(layers, 1);
}

// Returns the option, else the heads of the base where they divide its width, else the largest
// power of two up to 16 that does.
int64_t heads_of(const Options& options, const model::ModelConfig& base) {
  const int64_t chosen = options.i64("latent_heads"), width = base.hidden_size;
  if (chosen > 0) {
    if (width % chosen == 0) return chosen;
    fail_with_hint("choose a divisor of the width", Code::invalid_argument,
                   "latent_heads is {}, and the hidden states have {} numbers", chosen, width);
  }
  if (width % base.heads == 0) return base.heads;
  int64_t heads = 16;
  while (width % heads != 0) heads /= 2;
  return heads;
}

} // namespace

std::vector<OptionSpec> latent_size_options() {
  return {
      option_i64("latents", 64, 1, 1 << 16, "Latent vectors of a text."),
      option_i64("positions", 0, 0, 1 << 16,
                 "Positions that the decoder makes, the longest row; 0: as many as latents."),
      option_i64("latent_dim", 0, 0, 1 << 16,
                 "Numbers of a latent vector; 0: as many as hidden states have."),
      option_i64("latent_heads", 0, 0, 1 << 10,
                 "Heads of attention of the added networks; 0: as the base has."),
      option_i64("depth", 0, 0, 1 << 10,
                 "Layers of the encoder and of the decoder; 0: half as many as the base has."),
      option_i64("reader_depth", 0, 0, 1 << 10,
                 "Layers of the reader, which makes tokens of states; 0: a quarter as many as the "
                 "base has."),
      option_i64("denoiser_depth", 0, 0, 1 << 10,
                 "Layers of the denoiser; 0: as many as the base has."),
      option_choice("reader", "bidirectional", {"bidirectional", "causal", "cross"},
                    "Attention of the reader; cross: causal, and cross attention to all states."),
      option_choice("level", "adaptive", {"adaptive", "added"},
                    "How the denoiser reads a noise level: it scales every block (AdaLN-zero), or "
                    "is added to the stream."),
  };
}

std::map<std::string, Json> latent_configs(const Options& options, const model::ModelConfig& base) {
  const int64_t width = base.hidden_size, latents = options.i64("latents");
  const int64_t size = options.i64("latent_dim") > 0 ? options.i64("latent_dim") : width;
  const int64_t positions = options.i64("positions") > 0 ? options.i64("positions") : latents;
  // dLLM-castlehill: latents as wide as states, no positions and no head in the denoiser.
  const bool as_castlehill = options.str("compat") == "open-dllm";
  if (as_castlehill && size != width) {
    fail_with_hint("leave latent_dim out", Code::invalid_argument,
                   "compat open-dllm has latents of {} numbers, and latent_dim is {}", width, size);
  }
  const auto tower = [&](int64_t layers, Json more) {
    Json config = {{"model_type", "dllm_tower"},
                   {"hidden_size", width},
                   {"num_hidden_layers", layers},
                   {"num_attention_heads", heads_of(options, base)}};
    config.update(more);
    return config;
  };
  const auto head = [](const char* name, int64_t rows, bool zero) {
    return Json{{"heads", {{name, {{"rows", rows}, {"bias", true}, {"zero", zero}}}}}};
  };
  const int64_t depth = depth_of(options, "depth", base.layers / 2);
  Json encoder = tower(depth, {{"latents", latents},
                               {"context_size", width},
                               {"mixer", "self_cross_attention"},
                               {"last_norm", false}});
  if (size != width) encoder["dllm"] = head("latent", size, false);
  const Json decoder = tower(depth, {{"latents", positions},
                                     {"context_size", size},
                                     {"mixer", "self_cross_attention"},
                                     {"last_norm", false}});
  Json reader = tower(depth_of(options, "reader_depth", base.layers / 4),
                      {{"attention_bias", true}, {"dllm", head("lm", base.vocab_size, false)}});
  const std::string kind = as_castlehill ? "cross" : options.str("reader");
  if (kind != "bidirectional") reader["dllm"]["attention"] = "causal";
  if (kind == "cross") reader.update({{"mixer", "self_cross_attention"}, {"context_size", width}});
  const bool adaptive = !as_castlehill && options.str("level") == "adaptive";
  Json denoiser = tower(depth_of(options, "denoiser_depth", base.layers),
                        {{"level", adaptive ? "adaptive" : "added"},
                         {"level_size", adaptive ? 64 : 1},
                         {"inputs",
                          {{"noised", {{"size", size}, {"bias", true}}},
                           {"previous", {{"size", size}, {"bias", false}}}}}});
  if (!as_castlehill) {
    denoiser.update({{"positions", "learned"}, {"max_position_embeddings", latents}});
    denoiser["dllm"] = head("latent", size, adaptive);
  }
  if (options.f64("prompt") > 0) {
    denoiser.update({{"mixer", "self_cross_attention"},
                     {"context_size", width},
                     {"context_layer", options.i64("encoder_layer")}});
  }
  return {{latent_part::kEncoder, encoder},
          {latent_part::kDecoder, decoder},
          {latent_part::kReader, reader},
          {latent_part::kDenoiser, denoiser}};
}

} // namespace dllm::noise
