#pragma once
// Small models for tests.

#include "cpu/engine.h"
#include "graph/engine.h"
#include "model/model.h"
#include "unit/test_tensors.h"

#include <nlohmann/json.hpp>

#include <string>

namespace dllm::test {

inline std::shared_ptr<graph::Engine> small_engine() {
  Options options(graph::engine_schema());
  options.set_i64("threads", 2);
  return cpu::make_engine(options);
}

inline Json small_config(const std::string& model_type) {
  if (model_type == "gpt2") {
    return {{"model_type", "gpt2"}, {"vocab_size", 23}, {"n_embd", 16},
            {"n_layer", 3},         {"n_head", 2},      {"n_positions", 24}};
  }
  if (model_type == "nano-dlm") {
    return {{"model_type", "nano-dlm"},
            {"vocab_size", 23},
            {"d_model", 16},
            {"n_layers", 2},
            {"n_heads", 2},
            {"d_ff", 24},
            {"seq_len", 16},
            {"T", 50},
            {"time_conditioning", true}};
  }
  if (model_type == "llada") {
    return {{"model_type", "llada"}, {"vocab_size", 21},
            {"embedding_size", 24},  {"d_model", 16},
            {"n_layers", 2},         {"n_heads", 2},
            {"mlp_hidden_size", 24}, {"max_sequence_length", 32},
            {"mask_token_id", 20}};
  }
  Json config = {{"model_type", model_type},
                 {"vocab_size", 23},
                 {"hidden_size", 16},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 4},
                 {"intermediate_size", 24},
                 {"max_position_embeddings", 32}};
  if (model_type == "gemma2" || model_type == "gemma3_text") config["sliding_window"] = 2;
  if (model_type == "lladamoe") {
    config.update({{"num_experts", 5},
                   {"num_experts_per_tok", 2},
                   {"expert_intermediate_size", 9},
                   {"qk_layernorm", true},
                   {"shared_expert_intermediate_size", 7}});
  }
  if (model_type == "qwen2_moe" || model_type == "qwen3_moe" || model_type == "dllm_moe" ||
      model_type.starts_with("llada2")) {
    config.update({{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 9}});
  }
  if (model_type == "qwen2_moe") config["shared_expert_intermediate_size"] = 7;
  if (model_type == "qwen3_moe") config["mlp_only_layers"] = {1};
  if (model_type == "dllm_moe") config["moe_layer_freq"] = {0, 1, 1};
  if (model_type.starts_with("llada2")) {
    config.update({{"n_group", 3},
                   {"topk_group", 2},
                   {"first_k_dense_replace", 1},
                   {"num_shared_experts", 1},
                   {"routed_scaling_factor", 2.5}});
  }
  return config;
}

inline Options
model_options(std::initializer_list<std::pair<const char*, const char*>> values = {}) {
  Options options(model::model_schema());
  for (const auto& [key, text] : values) options.set_text(key, text);
  return options;
}

inline Batch small_ids(int64_t batch, int64_t seq, int32_t vocab) {
  Tensor ids(DType::i32, {batch, seq});
  for (int64_t i = 0; i < ids.count(); ++i) {
    ids.mutable_as<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7 + 3) % vocab;
  }
  Batch made;
  made.set("ids", ids);
  return made;
}

} // namespace dllm::test
