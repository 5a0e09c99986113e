#pragma once
// A tiny model and decoders of it, for the tests of decoding.

#include "cpu/engine.h"
#include "decode/decoder/decoder.h"
#include "graph/engine.h"
#include "noise/objective.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace dllm::decode {

constexpr int32_t kVocab = 31;
constexpr int32_t kMask = 30;

inline Json tiny_config() {
  return {
      {"model_type", "a2d-llama"}, {"vocab_size", kVocab},          {"hidden_size", 24},
      {"num_hidden_layers", 2},    {"num_attention_heads", 4},      {"num_key_value_heads", 2},
      {"intermediate_size", 40},   {"max_position_embeddings", 64}, {"tie_word_embeddings", false},
      {"initializer_range", 0.4},  {"mask_token_id", kMask}};
}

// Of DiffusionGemma, with windows shorter than most rows.
inline Json canvas_config() {
  const Json text = {
      {"vocab_size", kVocab},
      {"hidden_size", 24},
      {"num_hidden_layers", 3},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},
      {"head_dim", 8},
      {"global_head_dim", 16},
      {"num_global_key_value_heads", 1},
      {"intermediate_size", 20},
      {"max_position_embeddings", 64},
      {"initializer_range", 0.4},
      {"final_logit_softcapping", 30.0},
      {"sliding_window", 3},
      {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}},
      {"num_experts", 4},
      {"top_k_experts", 2},
      {"moe_intermediate_size", 8},
      {"rope_parameters",
       {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
        {"full_attention",
         {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}}}}};
  return {{"model_type", "diffusion_gemma"},
          {"canvas_length", 4},
          {"mask_token_id", kMask},
          {"text_config", text}};
}

inline std::shared_ptr<model::Model> tiny_model(int64_t threads = 1,
                                                const Json& config = tiny_config()) {
  Options options(graph::engine_schema());
  options.set_i64("threads", threads);
  return model::new_model(cpu::make_engine(options), config, Options(model::model_schema()));
}

inline std::shared_ptr<model::Model> tiny_model(const std::shared_ptr<graph::Engine>& engine,
                                                const Json& config = tiny_config()) {
  return model::new_model(engine, config, Options(model::model_schema()));
}

// Returns whether a policy decodes arrays. It takes no constraints then.
inline bool decodes_arrays(const std::string& policy) {
  return policy == "cola" || policy == "embedding" || policy == "latent";
}

// Adds the networks that the policy reads, as the objective of such models makes them.
inline void add_parts(model::Model& model, const std::string& policy) {
  if (!decodes_arrays(policy)) return;
  for (const std::string& name : noise::objective_names()) {
    if (noise::objective_facts(name).policy != policy) continue;
    const auto objective = noise::make_objective(name);
    for (const auto& [part, config] : objective->new_parts(model.config()))
      model::add_new_network(model, part, config, 5);
  }
}

// Returns a model that the policy can decode.
inline std::shared_ptr<model::Model> policy_model(const std::string& policy, int64_t threads = 1) {
  Json config = tiny_config();
  if (policy == "editflow") config["model_type"] = "editflow-llama";
  if (policy == "diffusion_gemma") config = canvas_config();
  if (policy == "cola") config["dllm"] = {{"block_length", 4}};
  auto model = tiny_model(threads, config);
  add_parts(*model, policy);
  return model;
}

inline std::unique_ptr<Decoder> make_decoder(std::shared_ptr<model::Model> model,
                                             const Json& values = Json::object()) {
  Options options(decoder_schema(values.value("policy", std::string())));
  options.set_json(values);
  return std::make_unique<Decoder>(std::move(model), options);
}

inline Options slot_options(const Json& values = Json::object()) {
  Options options(request_schema());
  options.set_json(values);
  return options;
}

// What a request is asked and what must not depend on its neighbours.
struct TestRequest {
  std::vector<int32_t> prompt;
  int64_t seed;
  int64_t gen_length;
};

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> confidence; // compared bit for bit
  bool operator==(const Answer&) const = default;
};

inline Answer answer_of(const Decoder& decoder, int64_t slot = 0) {
  return {decoder.request(slot).ids, decoder.request(slot).confidence};
}

inline int64_t add(Decoder& decoder, const TestRequest& request) {
  return decoder.add(request.prompt, {},
                     slot_options({{"seed", request.seed}, {"gen_length", request.gen_length}}));
}

// Requests whose prompts begin as earlier ones do, for any length.
inline std::vector<TestRequest> prompt_tree(unsigned seed, int count) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<TestRequest> requests;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt;
    if (!requests.empty()) prompt = requests[static_cast<size_t>(below(i))].prompt;
    if (below(3) == 0) prompt.resize(prompt.size() * static_cast<size_t>(below(5)) / 4);
    const int more = requests.empty() ? 44 : below(7);
    for (int k = 0; k < more && std::ssize(prompt) < 50; ++k) prompt.push_back(below(kMask));
    requests.push_back({prompt, 100 + i, 4 + below(9)});
  }
  return requests;
}

// Adds the requests in groups, with steps between them, and decodes them to their end.
inline void run_in_groups(Decoder& decoder, const std::vector<TestRequest>& requests,
                          size_t group) {
  for (size_t i = 0; i < requests.size(); ++i) {
    add(decoder, requests[i]);
    if (i % group == group - 1) decoder.step(), decoder.step();
  }
  decoder.run();
}

} // namespace dllm::decode
