#include "model/families/config_keys.h"

#include "base/error.h"
#include "base/log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace dllm::model {
namespace {

using enum ConfigKeyUse;

// Keys of PreTrainedConfig in transformers 4 and 5, and keys that tools add.
constexpr ConfigKey kEvery[] = {
    {"model_type", used},
    {"vocab_size", used},
    {"mask_token_id", used},
    {"dllm", used},
    {"initializer_range", used},
    {"tie_word_embeddings", used},
    {"is_encoder_decoder", plain, "[false]"},
    {"add_cross_attention", plain, "[false]"},
    {"is_decoder", harmless}, // of BERT: below
    {"pruned_heads", plain, "[]"},
    {"architectures", harmless},
    {"auto_map", harmless},
    {"_name_or_path", harmless},
    {"_attn_implementation", harmless},
    {"_attn_implementation_autoset", harmless},
    {"attn_implementation", harmless},
    {"transformers_version", harmless},
    {"dtype", harmless},
    {"torch_dtype", harmless},
    {"quantization_config", harmless}, // the tensors' own types count
    {"use_cache", harmless},
    {"bos_token_id", harmless},
    {"eos_token_id", harmless},
    {"pad_token_id", harmless},
    {"sep_token_id", harmless},
    {"cls_token_id", harmless},
    {"decoder_start_token_id", harmless},
    {"output_hidden_states", harmless},
    {"output_attentions", harmless},
    {"return_dict", harmless},
    {"use_return_dict", harmless},
    {"return_dict_in_generate", harmless},
    {"chunk_size_feed_forward", harmless}, // the same sums in pieces
    {"id2label", harmless},
    {"label2id", harmless},
    {"num_labels", harmless},
    {"problem_type", harmless},
    {"finetuning_task", harmless},
    {"task_specific_params", harmless},
    {"tokenizer_class", harmless},
    {"prefix", harmless},
    {"torchscript", harmless},
    {"use_bfloat16", harmless},
    {"gradient_checkpointing", harmless},
    {"cross_attention_hidden_size", harmless}, // of add_cross_attention
    {"tie_encoder_decoder", harmless},         // of is_encoder_decoder
    {"attention_dropout", harmless},
    {"output_router_logits", harmless},
    {"router_aux_loss_coef", harmless},
};

// Keys of Llama and its relatives.
constexpr ConfigKey kLlamaKeys[] = {
    {"hidden_size", used},
    {"intermediate_size", used},
    {"num_hidden_layers", used},
    {"num_attention_heads", used},
    {"num_key_value_heads", used},
    {"head_dim", used},
    {"hidden_act", used},
    {"max_position_embeddings", used},
    {"rms_norm_eps", used},
    {"rope_theta", used},
    {"rope_scaling", used},
    {"rope_parameters", used},
    {"partial_rotary_factor", used},
    {"use_sliding_window", used},
    {"sliding_window", harmless},    // of use_sliding_window
    {"max_window_layers", harmless}, // the same
    {"pretraining_tp", harmless},    // the same product in slices
};
constexpr ConfigKey kBiases[] = {{"attention_bias", used}, {"mlp_bias", used}};
constexpr ConfigKey kAttentionBias[] = {{"attention_bias", used}};
constexpr ConfigKey kQkvBias[] = {{"qkv_bias", used}};
constexpr ConfigKey kFullLayers[] = {{"layer_types", plain, R"(["full_attention"])"}};
constexpr ConfigKey kOwnLayers[] = {{"layer_types", used}};
constexpr ConfigKey kExpertKeys[] = {{"num_experts", used},         {"num_local_experts", used},
                                     {"num_experts_per_tok", used}, {"moe_intermediate_size", used},
                                     {"decoder_sparse_step", used}, {"mlp_only_layers", used},
                                     {"norm_topk_prob", used}};
constexpr ConfigKey kSharedExpert[] = {{"shared_expert_intermediate_size", used}};
constexpr ConfigKey kHybridKeys[] = {
    {"linear_num_key_heads", used},   {"linear_num_value_heads", used},
    {"linear_key_head_dim", used},    {"linear_value_head_dim", used},
    {"linear_conv_kernel_dim", used}, {"full_attention_interval", used}};
constexpr ConfigKey kBlockSize[] = {{"block_size", used}, {"fuse_cross_entropy", harmless}};
constexpr ConfigKey kFastDllmKeys[] = {{"bd_size", used}};
constexpr ConfigKey kWedlmKeys[] = {{"qk_norm", used}};
// The key of a window without a flag for it.
constexpr ConfigKey kNemotronKeys[] = {{"sliding_window", plain, "[]"},
                                       {"dlm_paradigm", used},
                                       {"block_size", used},
                                       {"ar_loss_weight", harmless},
                                       {"dlm_loss_weight", harmless},
                                       {"dp_varying_mask_ratio", harmless}};

constexpr ConfigKey kGemmaKeys[] = {
    {"hidden_activation", used},       {"query_pre_attn_scalar", used},
    {"sliding_window", used},          {"layer_types", used},
    {"attn_logit_softcapping", used},  {"final_logit_softcapping", used},
    {"attention_bias", used},          {"use_bidirectional_attention", plain, "[false]"},
    {"cache_implementation", harmless}};
constexpr ConfigKey kGemma3Keys[] = {{"rope_local_base_freq", used},
                                     {"sliding_window_pattern", used},
                                     {"_sliding_window_pattern", used}};
constexpr ConfigKey kDiffusionGemmaKeys[] = {
    {"hidden_activation", used},
    {"sliding_window", used},
    {"layer_types", used},
    {"final_logit_softcapping", used},
    {"attention_bias", used},
    {"use_bidirectional_attention", plain, R"([false, "vision"])"}, // among positions of an image
    {"num_experts", used},
    {"top_k_experts", used},
    {"moe_intermediate_size", used},
    {"global_head_dim", used},
    {"num_global_key_value_heads", used},
    {"attention_k_eq_v", used},
    {"per_layer_config", used},
    {"canvas_length", used}};
// Keys of folders that hold a vision tower.
constexpr ConfigKey kNestedKeys[] = {{"text_config", used},
                                     {"vision_config", harmless},
                                     {"boi_token_id", harmless},
                                     {"eoi_token_id", harmless},
                                     {"image_token_id", harmless},
                                     {"video_token_id", harmless},
                                     {"vision_start_token_id", harmless},
                                     {"vision_end_token_id", harmless}};

constexpr ConfigKey kGpt2Keys[] = {
    {"n_embd", used},
    {"n_layer", used},
    {"n_head", used},
    {"n_inner", used},
    {"n_positions", used},
    {"n_ctx", harmless}, // of old files: n_positions
    {"activation_function", used},
    {"layer_norm_epsilon", used},
    {"scale_attn_weights", used},
    {"scale_attn_by_inverse_layer_idx", plain, "[false]"},
    {"reorder_and_upcast_attn", harmless}, // the same scores in f32, as all are here
    {"resid_pdrop", harmless},
    {"embd_pdrop", harmless},
    {"attn_pdrop", harmless},
    {"summary_type", harmless},
    {"summary_use_proj", harmless},
    {"summary_activation", harmless},
    {"summary_proj_to_labels", harmless},
    {"summary_first_dropout", harmless}};

constexpr ConfigKey kEncoderKeys[] = {{"hidden_size", used},
                                      {"num_hidden_layers", used},
                                      {"num_attention_heads", used},
                                      {"intermediate_size", used},
                                      {"max_position_embeddings", used}};
constexpr ConfigKey kBertKeys[] = {{"hidden_act", used},
                                   {"layer_norm_eps", used},
                                   {"type_vocab_size", used},
                                   {"position_embedding_type", used},
                                   {"is_decoder", used},
                                   {"hidden_dropout_prob", harmless},
                                   {"attention_probs_dropout_prob", harmless},
                                   {"classifier_dropout", harmless}};
constexpr ConfigKey kModernBertKeys[] = {
    {"hidden_activation", used},
    {"classifier_activation", used},
    {"norm_eps", used},
    {"norm_bias", used},
    {"attention_bias", used},
    {"mlp_bias", used},
    {"classifier_bias", used},
    {"decoder_bias", used},
    {"layer_types", used},
    {"global_attn_every_n_layers", used},
    {"local_attention", used},
    {"rope_parameters", used},
    {"global_rope_theta", used},
    {"local_rope_theta", used},
    {"initializer_cutoff_factor", harmless},
    {"embedding_dropout", harmless},
    {"mlp_dropout", harmless},
    {"classifier_dropout", harmless},
    {"classifier_pooling", harmless}, // of heads over whole texts
    {"deterministic_flash_attn", harmless},
    {"sparse_prediction", harmless}, // the loss of masked positions alone
    {"sparse_pred_ignore_index", harmless},
    {"repad_logits_with_grad", harmless},
    {"reference_compile", harmless}};
constexpr ConfigKey kDllmBertKeys[] = {
    {"hidden_act", used},    {"layer_norm_eps", used},      {"rms_norm_eps", used},
    {"use_bias", used},      {"attention_bias", used},      {"use_qk_norm", used},
    {"qk_layernorm", used},  {"num_key_value_heads", used}, {"head_dim", harmless},
    {"rope_theta", harmless}}; // positions are learned, heads as wide as hidden_size allows

using Keys = std::span<const ConfigKey>;

struct TypeKeys {
  std::vector<std::string> model_types;
  std::vector<Keys> keys; // later lists take precedence
};

const std::vector<TypeKeys>& type_keys() {
  static const std::vector<TypeKeys> table = {
      {{"llama", "a2d-llama"}, {kLlamaKeys, kBiases}},
      {{"qwen2", "a2d-qwen2", "Dream"}, {kLlamaKeys, kFullLayers}},
      {{"Fast_dLLM_Qwen"}, {kLlamaKeys, kFullLayers, kFastDllmKeys}},
      {{"qwen3", "a2d-qwen3"}, {kLlamaKeys, kAttentionBias, kFullLayers}},
      {{"sdar"}, {kLlamaKeys, kAttentionBias, kBlockSize}},
      {{"qwen2_moe"}, {kLlamaKeys, kQkvBias, kFullLayers, kExpertKeys, kSharedExpert}},
      {{"qwen3_moe", "rnd1"}, {kLlamaKeys, kAttentionBias, kExpertKeys}},
      {{"sdar_moe"}, {kLlamaKeys, kAttentionBias, kExpertKeys, kBlockSize}},
      {{"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"},
       {kLlamaKeys, kAttentionBias, kOwnLayers, kExpertKeys, kSharedExpert, kHybridKeys,
        kNestedKeys}},
      {{"wedlm"}, {kLlamaKeys, kAttentionBias, kWedlmKeys}},
      {{"nemotron_labs_diffusion"}, {kLlamaKeys, kBiases, kNemotronKeys}},
      {{"gemma2"}, {kLlamaKeys, kGemmaKeys}},
      {{"gemma3_text"}, {kLlamaKeys, kGemmaKeys, kGemma3Keys}},
      {{"diffusion_gemma", "diffusion_gemma_text"}, {kLlamaKeys, kDiffusionGemmaKeys, kNestedKeys}},
      {{"gpt2"}, {kGpt2Keys}},
      {{"bert"}, {kEncoderKeys, kBertKeys}},
      {{"modernbert"}, {kEncoderKeys, kModernBertKeys}},
      {{"dllm_bert"}, {kEncoderKeys, kDllmBertKeys}},
  };
  return table;
}

const TypeKeys* keys_of(const std::string& model_type) {
  for (const TypeKeys& entry : type_keys()) {
    if (std::ranges::find(entry.model_types, model_type) != entry.model_types.end()) return &entry;
  }
  return nullptr;
}

const ConfigKey* find_key(Keys keys, const std::string& name) {
  const auto found = std::ranges::find_if(keys, [&](const ConfigKey& k) { return name == k.name; });
  return found == keys.end() ? nullptr : &*found;
}

// Returns true for a plain value. A list is plain when each of its values is.
bool is_plain(const Json& value, const Json& plain) {
  if (value.is_null()) return true;
  if (value.is_array() || value.is_object()) {
    return std::ranges::all_of(
        value, [&](const Json& item) { return std::ranges::find(plain, item) != plain.end(); });
  }
  return std::ranges::find(plain, value) != plain.end();
}

} // namespace

const ConfigKey* find_config_key(const std::string& model_type, const std::string& key) {
  if (const TypeKeys* own = keys_of(model_type)) {
    for (size_t i = own->keys.size(); i-- > 0;) {
      if (const ConfigKey* found = find_key(own->keys[i], key)) return found;
    }
  }
  return find_key(kEvery, key);
}

void check_config_keys(const ConfigReader& reader, const std::string& model_type) {
  const bool listed = keys_of(model_type) != nullptr; // other families check their switches in code
  std::string unknown;
  for (const auto& [name, value] : reader.object().items()) {
    const ConfigKey* key = find_config_key(model_type, name);
    if (key == nullptr && listed && !value.is_null())
      unknown += (unknown.empty() ? "" : ", ") + name.substr(0, 60);
    if (key == nullptr || key->use != plain || is_plain(value, Json::parse(key->plain))) continue;
    fail(Code::unimplemented, "{}: {} = {} is not supported", reader.file(), name,
         shown_value(value));
  }
  if (!unknown.empty())
    log(LogLevel::info, "{}: keys that are not read: {}", reader.file(), unknown.substr(0, 400));
}

} // namespace dllm::model
