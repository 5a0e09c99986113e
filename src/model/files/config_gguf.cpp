// Reads a config from the metadata of a GGUF file (ggml docs, gguf.md; gguf-py constants.py).

#include "base/error.h"
#include "ckpt/gguf/gguf.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/files/gguf_names.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

const Family& family_of_architecture(const std::string& name) {
  for (const Family* family : all_families()) {
    for (const char* own : family->gguf_names) {
      if (own != nullptr && name == own) return *family;
    }
  }
  fail_with_hint("GGUF architectures: " + gguf_architectures(), Code::unimplemented,
                 "family {} is not supported yet", name.substr(0, 60));
}

// Builds the config.json with the same content, so that both formats go through one parser and one
// check.
class Translation {
public:
  Translation(const ckpt::GgufFile& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  bool has(const char* key) const { return file_.has(prefix_ + key); }
  // A list has one number per layer; all of them must be equal.
  int64_t integer(const char* key) const {
    const std::string whole = prefix_ + key;
    if (!file_.value(whole).is_array) return file_.integer(whole);
    const std::vector<int64_t> list = file_.integers(whole);
    if (list.empty() ||
        std::adjacent_find(list.begin(), list.end(), std::not_equal_to<>()) != list.end())
      fail(Code::unimplemented, "{}: {} differs between layers, which is not supported yet",
           file_.name(), whole);
    return list.front();
  }
  void copy_integer(const char* key, const char* to) {
    if (has(key)) object[to] = integer(key);
  }
  void copy_number(const char* key, const char* to) {
    if (has(key)) object[to] = file_.number(prefix_ + key);
  }
  std::string text(const char* key) const { return file_.text(prefix_ + key); }
  double number(const char* key) const { return file_.number(prefix_ + key); }

  Json object = Json::object();

private:
  const ckpt::GgufFile& file_;
  std::string prefix_;
};

// Finds the rule of Llama 3.1 and later, whose files hold the divisor of every frequency in place
// of the rule.
void recognise_rope_divisors(const ckpt::GgufFile& file, Json& object) {
  constexpr const char* kTensor = "rope_freqs.weight";
  if (!file.has_tensor(kTensor)) return;
  const Tensor divisors = file.tensor(kTensor).to(DType::f32);
  ModelConfig config;
  config.head_dim = 2 * divisors.count();
  config.max_positions = 1;
  config.rope.theta = object.value("rope_theta", 10000.0);
  const Tensor plain = rope_table(config, 1).inv_freq;
  const auto by = divisors.as<float>();
  if (std::all_of(by.begin(), by.end(), [](float value) { return value == 1.0f; })) return;
  for (const double factor : {8.0, 32.0}) { // Llama 3.1 and 3.3; 3.2
    config.rope.type = "llama3";
    config.rope.factor = factor;
    config.rope.original_max_positions = 8192;
    const Tensor table = rope_table(config, 1).inv_freq;
    bool same = true;
    for (size_t i = 0; i < by.size() && same; ++i) {
      same = std::abs(plain.as<float>()[i] / by[i] / table.as<float>()[i] - 1) < 1e-4;
    }
    if (!same) continue;
    object["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", factor},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
    return;
  }
  fail(Code::unimplemented, "{}: the divisors of {} follow no rule that is supported yet",
       file.name(), kTensor);
}

void translate_rope(const ckpt::GgufFile& file, Translation& from, int64_t head_dim) {
  from.copy_number("rope.freq_base", "rope_theta");
  if (from.has("rope.dimension_count") && from.integer("rope.dimension_count") != head_dim) {
    from.object["partial_rotary_factor"] =
        static_cast<double>(from.integer("rope.dimension_count")) / static_cast<double>(head_dim);
  }
  const std::string type = from.has("rope.scaling.type") ? from.text("rope.scaling.type") : "none";
  if (type != "none") {
    Json scaling = {
        {"rope_type", type},
        {"factor", from.has("rope.scaling.factor") ? from.number("rope.scaling.factor") : 1.0}};
    if (from.has("rope.scaling.original_context_length")) {
      scaling["original_max_position_embeddings"] =
          from.integer("rope.scaling.original_context_length");
    }
    if (from.has("rope.scaling.yarn_beta_fast"))
      scaling["beta_fast"] = from.number("rope.scaling.yarn_beta_fast");
    if (from.has("rope.scaling.yarn_beta_slow"))
      scaling["beta_slow"] = from.number("rope.scaling.yarn_beta_slow");
    // The file's factor is multiplied by YaRN's own factor.
    const double factor = scaling["factor"].get<double>();
    if (from.has("rope.scaling.attn_factor") && from.number("rope.scaling.attn_factor") != 1)
      scaling["attention_factor"] =
          from.number("rope.scaling.attn_factor") * (factor > 1 ? 0.1 * std::log(factor) + 1 : 1);
    from.object["rope_scaling"] = scaling;
  }
  recognise_rope_divisors(file, from.object);
}

// Reads the numbers of attention that only Gemma has. A divisor of the scores that the file lacks
// follows from the number of layers, as in llama.cpp: the 27B models divide by another number.
void translate_gemma(Translation& from, bool is_gemma3) {
  from.copy_integer("attention.sliding_window", "sliding_window");
  from.copy_number("attn_logit_softcapping", "attn_logit_softcapping");
  from.copy_number("final_logit_softcapping", "final_logit_softcapping");
  const int64_t layers = from.integer("block_count"), large = is_gemma3 ? 62 : 46;
  from.object["query_pre_attn_scalar"] =
      layers == large ? from.integer("embedding_length") / from.integer("attention.head_count")
                      : from.object["head_dim"].get<int64_t>();
  if (!is_gemma3) return;
  if (from.has("attention.sliding_window_pattern"))
    from.object["sliding_window_pattern"] = from.integer("attention.sliding_window_pattern");
  from.copy_number("rope.freq_base_swa", "rope_local_base_freq");
}

void translate_experts(const ckpt::GgufFile& file, Translation& from, const std::string& family) {
  const bool is_llada = family == "llada-moe";
  from.copy_integer("expert_count", "num_experts");
  from.copy_integer("expert_used_count", "num_experts_per_tok");
  const int64_t dense = from.has("feed_forward_length") ? from.integer("feed_forward_length") : 0;
  const int64_t used = std::max<int64_t>(1, from.object.value("num_experts_per_tok", int64_t{1}));
  const int64_t width = from.has("expert_feed_forward_length")
                            ? from.integer("expert_feed_forward_length")
                            : dense / used;
  from.object[is_llada ? "expert_intermediate_size" : "moe_intermediate_size"] = width;
  if (dense == 0) from.object["intermediate_size"] = width;
  Json sparse = Json::array(), dense_layers = Json::array();
  for (int64_t layer = 0; layer < from.integer("block_count"); ++layer) {
    const bool has_experts = file.has_tensor(fmt::format("blk.{}.ffn_gate_exps.weight", layer));
    sparse.push_back(has_experts ? 1 : 0);
    if (!has_experts) dense_layers.push_back(layer);
  }
  if (is_llada) {
    from.object["moe_layer_freq"] = sparse;
    from.object["qk_layernorm"] = file.has_tensor("blk.0.attn_q_norm.weight");
  } else {
    from.object["mlp_only_layers"] = dense_layers;
    from.object["norm_topk_prob"] = family == "qwen3-moe"; // llama.cpp follows the architecture
  }
  if (family == "qwen2-moe")
    from.object["shared_expert_intermediate_size"] =
        from.has("expert_shared_feed_forward_length")
            ? from.integer("expert_shared_feed_forward_length")
            : dense;
}

// Converts to the keys of LLaDA's config.
void rename_for_llada(Json& object) {
  const std::pair<const char*, const char*> words[] = {
      {"hidden_size", "d_model"},
      {"num_hidden_layers", "n_layers"},
      {"num_attention_heads", "n_heads"},
      {"num_key_value_heads", "n_kv_heads"},
      {"intermediate_size", "mlp_hidden_size"},
      {"max_position_embeddings", "max_sequence_length"},
      {"tie_word_embeddings", "weight_tying"}};
  for (const auto& [from, to] : words) {
    if (!object.contains(from)) continue;
    object[to] = object[from];
    object.erase(from);
  }
}

// Reads the keys that dllm wrote. They have the names and the values of config.json.
void take_own_settings(const ckpt::GgufFile& file, Json& own) {
  const std::string prefix = kGgufOwn;
  for (const char* key : {"attention", "objective"}) {
    if (file.has(prefix + key)) own[key] = file.text(prefix + key);
  }
  if (file.has(prefix + "next_token")) own["next_token"] = file.boolean(prefix + "next_token");
  for (const char* key : {"shift", "block_length"}) {
    if (file.has(prefix + key)) own[key] = file.integer(prefix + key);
  }
}

// Reads the settings of a diffusion model: attention, shift, mask token. Files of the four
// architectures of llama.cpp without a mask get the mask token that their model was published with.
void translate_diffusion(const ckpt::GgufFile& file, const Translation& from,
                         const std::string& architecture, Json& object) {
  const bool is_llada = architecture.starts_with("llada");
  const bool is_diffusion = is_llada || architecture == "dream" || architecture == "rnd1";
  const bool causal = from.has("attention.causal")
                          ? file.boolean(architecture + ".attention.causal")
                          : !is_diffusion;
  Json own = Json::object();
  if (is_diffusion || !causal) own["attention"] = "bidirectional";
  if (file.has("diffusion.shift_logits"))
    own["shift"] = file.boolean("diffusion.shift_logits") ? 1 : 0;
  else if (is_diffusion)
    own["shift"] = is_llada ? 0 : 1;
  take_own_settings(file, own);
  if (!own.empty()) object["dllm"] = own;

  constexpr int64_t kLladaMask = 126336, kLladaMoeMask = 156895;
  const int64_t usual = architecture == "llada" ? kLladaMask : kLladaMoeMask;
  if (file.has("tokenizer.ggml.mask_token_id"))
    object["mask_token_id"] = file.integer("tokenizer.ggml.mask_token_id");
  else if (is_llada && usual < object["vocab_size"].get<int64_t>())
    object["mask_token_id"] = usual;
}

} // namespace

ModelConfig config_from_gguf(const ckpt::GgufFile& file) {
  const std::string architecture = file.text("general.architecture");
  const Family& family = family_of_architecture(architecture);
  const std::string name = family.name;
  Translation from(file, architecture + ".");
  Json& object = from.object;
  object["model_type"] = family.model_types[0];
  object["vocab_size"] = file.tensor_info("token_embd.weight").shape[0];
  from.copy_integer("embedding_length", "hidden_size");
  from.copy_integer("block_count", "num_hidden_layers");
  from.copy_integer("feed_forward_length", "intermediate_size");
  from.copy_integer("attention.head_count", "num_attention_heads");
  from.copy_integer("attention.head_count_kv", "num_key_value_heads");
  from.copy_integer("attention.key_length", "head_dim");
  from.copy_integer("context_length", "max_position_embeddings");
  from.copy_number("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  if (!from.has("embedding_length") || !from.has("attention.head_count") ||
      !from.has("block_count")) {
    fail(Code::data_loss,
         "{}: {}.embedding_length, {}.block_count and {}.attention.head_count are needed",
         file.name(), architecture, architecture, architecture);
  }
  const int64_t heads = std::max<int64_t>(1, from.integer("attention.head_count"));
  if (!object.contains("head_dim")) object["head_dim"] = from.integer("embedding_length") / heads;
  object["tie_word_embeddings"] = !file.has_tensor("output.weight");
  const bool has_bias =
      file.has_tensor("blk.0.attn_q.bias") || file.has_tensor("blk.0.attn_qkv.bias");
  const bool has_out_bias = file.has_tensor("blk.0.attn_output.bias");
  if (name == "qwen2-moe")
    object["qkv_bias"] = has_bias;
  else if (has_bias && name != "qwen2" && name != "dream")
    object["attention_bias"] = true;
  translate_rope(file, from, std::max<int64_t>(1, object["head_dim"].get<int64_t>()));
  if (name == "gemma2" || name == "gemma3") translate_gemma(from, name == "gemma3");
  if (name == "llada-moe" || name == "qwen2-moe" || name == "qwen3-moe")
    translate_experts(file, from, name);
  if (name == "llada") {
    rename_for_llada(object);
    object["include_bias"] = has_out_bias;
    object["include_qkv_bias"] = has_bias;
  } else if (file.has_tensor("blk.0.ffn_down.bias")) {
    object["mlp_bias"] = true;
  }
  translate_diffusion(file, from, architecture, object);
  return config_from_json(object, file.name());
}

} // namespace dllm::model
