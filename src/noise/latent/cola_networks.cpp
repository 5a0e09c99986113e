#include "noise/latent/cola_networks.h"

#include "base/error.h"
#include "graph/ops.h"
#include "noise/latent/latent_networks.h"

#include <nlohmann/json.hpp>

#include <charconv>

namespace dllm::noise {
namespace {

using graph::Value;

constexpr const char* kTokensInput = "tokens"; // of the encoder: the embeddings of the base
constexpr const char* kStatesInput = "states"; // "states-3": states of the base, third from the end
constexpr float kLogVarianceCap = 10, kFirstLogVariance = -4;

std::string cola_input(const Options& options) {
  if (options.str("source") == "tokens") return kTokensInput;
  return kStatesInput + std::to_string(options.i64("source_layer"));
}

// Returns the option, else the largest power of two up to 8 whose heads have an even width, as
// rotary positions need it.
int64_t cola_heads_of(const Options& options, int64_t hidden) {
  int64_t heads = options.i64("latent_heads");
  if (heads > 0) return heads;
  for (heads = 8; heads > 1 && hidden % (2 * heads) != 0;) heads /= 2;
  return heads;
}

Json cola_tower(const Options& options, const model::ModelConfig& base, const char* layers) {
  const int64_t own = options.i64("latent_hidden"), hidden = own > 0 ? own : base.hidden_size;
  return {{"model_type", "dllm_tower"},
          {"hidden_size", hidden},
          {"num_hidden_layers", options.i64(layers)},
          {"num_attention_heads", cola_heads_of(options, hidden)},
          {"intermediate_size", 4 * hidden},
          {"hidden_act", "silu"},
          {"gated_mlp", true},
          {"mlp_bias", false},
          {"attention_out_bias", false},
          {"qk_norm", true},
          {"norm", "rms"},
          {"positions", "rotary"},
          {"max_position_embeddings", base.max_positions}};
}

Json cola_heads(std::initializer_list<std::pair<const char*, Json>> heads) {
  Json made = Json::object();
  for (const auto& [name, head] : heads) made["heads"][name] = head;
  return made;
}

} // namespace

std::vector<std::string> cola_parts() {
  return {cola_part::kEncoder, cola_part::kDecoder, cola_part::kPrior};
}

std::vector<OptionSpec> cola_size_options() {
  return {
      option_choice("source", "tokens", {"tokens", "states"},
                    "What is encoded: embeddings of tokens, or hidden states of the base."),
      option_i64("source_layer", -3, -1024, 1024,
                 "Layer of the base whose states are encoded; 0: the embedding, negative: from the "
                 "end, -1: after the last norm."),
      option_i64("latent_dim", 16, 1, 1 << 16, "Numbers of the latent of one token."),
      option_i64("latent_hidden", 0, 0, 1 << 20,
                 "Width of encoder, decoder and prior; 0: that of the base."),
      option_i64("latent_heads", 0, 0, 1 << 16,
                 "Attention heads of the three networks, a divisor of their width; 0: up to 8."),
      option_i64("encoder_layers", 4, 1, 1024, "Layers of the encoder."),
      option_i64("decoder_layers", 4, 1, 1024, "Layers of the decoder of tokens."),
      option_i64("prior_layers", 8, 1, 1024, "Layers of the prior."),
  };
}

std::map<std::string, Json> cola_configs(const Options& options, const model::ModelConfig& base) {
  const int64_t width = options.i64("latent_dim");
  const Json of_latent = {{"rows", width}, {"bias", true}, {"zero", true}};
  Json encoder = cola_tower(options, base, "encoder_layers"),
       decoder = cola_tower(options, base, "decoder_layers"),
       prior = cola_tower(options, base, "prior_layers");
  encoder["inputs"][cola_input(options)] = {{"size", base.hidden_size}};
  encoder["dllm"] =
      cola_heads({{"mean", {{"rows", width}, {"bias", true}}}, {"log_variance", of_latent}});
  decoder["inputs"]["latents"] = {{"size", width}};
  decoder["dllm"] = cola_heads({{"lm", {{"rows", base.vocab_size}}}});
  prior["inputs"]["latents"] = {{"size", width}};
  prior["dllm"] = cola_heads({{"velocity", of_latent}});
  prior["norm"] = "layer"; // without weights: the level has them
  prior["level"] = "adaptive";
  prior["level_size"] = 256;
  return {
      {cola_part::kEncoder, encoder}, {cola_part::kDecoder, decoder}, {cola_part::kPrior, prior}};
}

void check_cola_networks(const Options& options, model::Builder& base) {
  const auto refuse = [](const std::string& part, const std::string& what, const std::string& has,
                         const std::string& wanted) {
    fail_with_hint("set the options as the model was made, or train from a model without the part",
                   Code::invalid_argument,
                   "part {} of the model has {} {}, and the options of the objective say {}", part,
                   what, has, wanted);
  };
  const auto number = [&](const char* part, const char* what, int64_t has, int64_t wanted) {
    if (has != wanted) refuse(part, what, std::to_string(has), std::to_string(wanted));
  };
  const model::ModelConfig &encoder = base.part(cola_part::kEncoder).config(),
                           &decoder = base.part(cola_part::kDecoder).config(),
                           &prior = base.part(cola_part::kPrior).config();
  if (encoder.tower.inputs.empty() || encoder.tower.inputs.front().name != cola_input(options)) {
    refuse(cola_part::kEncoder, "input",
           encoder.tower.inputs.empty() ? "none" : encoder.tower.inputs.front().name,
           cola_input(options));
  }
  number(cola_part::kEncoder, "num_hidden_layers", encoder.layers, options.i64("encoder_layers"));
  number(cola_part::kDecoder, "num_hidden_layers", decoder.layers, options.i64("decoder_layers"));
  number(cola_part::kPrior, "num_hidden_layers", prior.layers, options.i64("prior_layers"));
  const int64_t hidden = options.i64("latent_hidden");
  number(cola_part::kPrior, "hidden_size", prior.hidden_size,
         hidden > 0 ? hidden : base.config().hidden_size);
  number(cola_part::kPrior, "num_attention_heads", prior.heads,
         cola_heads_of(options, prior.hidden_size));
  const std::vector<model::InputConfig>& inputs = prior.tower.inputs;
  number(cola_part::kPrior, "latents of size", inputs.empty() ? 0 : inputs.front().size,
         options.i64("latent_dim"));
}

namespace {

// Returns the states that the encoder reads. The name of its input says which.
Value cola_source(model::Builder& base, const std::string& input,
                  const model::ForwardInputs& tokens) {
  if (input == kTokensInput) return base.embed(tokens.ids);
  int64_t layer = 0;
  const std::string number = input.substr(std::string(kStatesInput).size());
  std::from_chars(number.data(), number.data() + number.size(), layer);
  return base_states(base, tokens, layer);
}

} // namespace

ColaPosterior cola_encode_tokens(model::Builder& base, const ColaTokens& given, bool detach) {
  model::Builder& encoder = base.part(cola_part::kEncoder);
  if (encoder.config().tower.inputs.empty())
    fail(Code::failed_precondition, "part encoder of the model has no input");
  const std::string& name = encoder.config().tower.inputs.front().name;
  Value states = cola_source(base, name, given.tokens);
  if (detach) states = graph::stop_gradient(states);
  model::ForwardInputs inputs;
  inputs.embeddings = model::product(encoder.input(name), states);
  inputs.positions = given.tokens.positions;
  inputs.mask = given.visible;
  inputs.mask.terms.push_back({graph::MaskKind::block_causal, {given.block}});
  const Value hidden = encoder.forward(inputs).hidden;
  const Value raw = model::product(encoder.head("log_variance"), hidden);
  const Value first = graph::scalar(base.graph(), kFirstLogVariance);
  return {model::product(encoder.head("mean"), hidden),
          graph::add(graph::softcap(raw, kLogVarianceCap), first)};
}

Value cola_decode(model::Builder& base, Value latents, Value positions, const graph::Mask& mask) {
  model::Builder& decoder = base.part(cola_part::kDecoder);
  model::ForwardInputs inputs;
  inputs.embeddings = model::product(decoder.input("latents"), latents);
  inputs.positions = positions;
  inputs.mask = mask;
  return decoder.forward(inputs).hidden;
}

model::ForwardOutputs cola_prior_pass(model::Builder& base, const model::ForwardInputs& given,
                                      Value latents) {
  model::Builder& prior = base.part(cola_part::kPrior);
  model::ForwardInputs inputs = given;
  inputs.embeddings = model::product(prior.input("latents"), latents);
  return prior.forward(inputs);
}

Value cola_velocity(model::Builder& base, const model::ForwardInputs& prior, Value latents) {
  const Value hidden = cola_prior_pass(base, prior, latents).hidden;
  return model::product(base.part(cola_part::kPrior).head("velocity"), hidden);
}

} // namespace dllm::noise
