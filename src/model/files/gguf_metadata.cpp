#include "model/files/gguf_metadata.h"

#include "base/error.h"
#include "model/families/family.h"
#include "model/files/gguf_names.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/pre_tokenizer_scheme.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

[[noreturn]] void refuse(const ModelConfig& config, const std::string& what) {
  fail_with_hint("write a folder with --format bf16, or another model", Code::unimplemented,
                 "a GGUF file of family {} cannot hold {}", config.family, what);
}

// rnd1 has the layers of qwen3moe, and every token sees every token.
std::string architecture_of(const ModelConfig& config) {
  const Family& family = find_family(config.family);
  if (family.gguf_names[0] == nullptr) {
    fail_with_hint("GGUF architectures: " + gguf_architectures(), Code::unimplemented,
                   "GGUF has no architecture for family {}", config.family);
  }
  const bool is_rnd1 = config.family == "qwen3-moe" && config.attention != AttentionKind::causal;
  return family.gguf_names[is_rnd1 ? 1 : 0];
}

// Fails for settings that have no key in GGUF.
void check_writable(const ModelConfig& config) {
  if (!config.other_heads.empty()) refuse(config, "the head " + config.other_heads[0].name);
  if (!config.mixers.empty()) refuse(config, "layers of other kinds");
  if (config.experts.shared > 0 && config.family != "qwen2-moe") refuse(config, "a shared expert");
  if (config.rope.type == "dynamic") refuse(config, "rope of type dynamic");
}

void put_rope(const ModelConfig& config, const std::string& prefix, ckpt::GgufMetadata& to) {
  const RopeConfig& rope = config.rope;
  to.f32(prefix + "rope.freq_base", rope.theta);
  to.u32(prefix + "rope.dimension_count",
         static_cast<int64_t>(std::lround(static_cast<double>(config.head_dim) * rope.partial)));
  if (config.sliding_theta > 0) to.f32(prefix + "rope.freq_base_swa", config.sliding_theta);
  if (rope.type == "default" || rope.type == "llama3") return; // llama3: the tensor rope_freqs
  to.text(prefix + "rope.scaling.type", rope.type);
  to.f32(prefix + "rope.scaling.factor", rope.factor);
  if (rope.original_max_positions > 0)
    to.u32(prefix + "rope.scaling.original_context_length", rope.original_max_positions);
  if (rope.type != "yarn") return;
  to.f32(prefix + "rope.scaling.yarn_beta_fast", rope.beta_fast);
  to.f32(prefix + "rope.scaling.yarn_beta_slow", rope.beta_slow);
  const double own = rope.factor > 1 ? 0.1 * std::log(rope.factor) + 1 : 1;
  if (rope.attention_factor > 0)
    to.f32(prefix + "rope.scaling.attn_factor", rope.attention_factor / own);
}

void put_experts(const ModelConfig& config, const std::string& prefix, ckpt::GgufMetadata& to) {
  const ExpertConfig& experts = config.experts;
  if (experts.count == 0) return;
  to.u32(prefix + "expert_count", experts.count);
  to.u32(prefix + "expert_used_count", experts.per_token);
  to.u32(prefix + "expert_feed_forward_length", experts.intermediate);
  if (experts.shared > 0) to.u32(prefix + "expert_shared_feed_forward_length", experts.shared);
  const bool divides = config.family == "qwen3-moe"; // llama.cpp follows the architecture
  if (experts.normalize != divides) refuse(config, "this rule of the experts' shares");
}

void put_gemma(const ModelConfig& config, const std::string& prefix, ckpt::GgufMetadata& to) {
  to.u32(prefix + "attention.sliding_window", config.window);
  if (config.attention_softcap > 0)
    to.f32(prefix + "attn_logit_softcapping", config.attention_softcap);
  if (config.logit_softcap > 0) to.f32(prefix + "final_logit_softcapping", config.logit_softcap);
  // The file holds one number n: every n-th layer has no window.
  const auto full = std::find(config.sliding.begin(), config.sliding.end(), false);
  const int64_t pattern = full - config.sliding.begin() + 1;
  for (size_t layer = 0; layer < config.sliding.size(); ++layer) {
    const bool slides = (static_cast<int64_t>(layer) + 1) % pattern != 0;
    if (config.sliding[layer] != slides) refuse(config, "this pattern of sliding layers");
  }
  to.u32(prefix + "attention.sliding_window_pattern", pattern);
  const bool is_large = config.layers == (config.family == "gemma3" ? 62 : 46);
  const double usual =
      static_cast<double>(is_large ? config.hidden_size / config.heads : config.head_dim);
  if (config.query_scalar != usual) refuse(config, "query_pre_attn_scalar");
}

// Writes attention, shift and objective under the names of config.json. llama.cpp has keys for
// causal and bidirectional attention, and for the shift of models that are not causal.
void put_own_settings(const ModelConfig& config, ckpt::GgufMetadata& to) {
  const std::string prefix = kGgufOwn;
  to.text(prefix + "attention", attention_name(config.attention));
  to.u32(prefix + "shift", config.shift);
  if (config.block_length > 0) to.u32(prefix + "block_length", config.block_length);
  if (!config.objective.empty()) to.text(prefix + "objective", config.objective);
  if (config.next_token) to.boolean(prefix + "next_token", true);
}

} // namespace

Tensor rope_divisors(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  if (rope.type != "llama3") return {};
  const bool known = (rope.factor == 8 || rope.factor == 32) && rope.low_freq_factor == 1 &&
                     rope.high_freq_factor == 4 && rope.original_max_positions == 8192;
  if (!known) refuse(config, "this rope of type llama3");
  ModelConfig plain = config;
  plain.rope.type = "default";
  const Tensor from = rope_table(plain, 1).inv_freq, to = rope_table(config, 1).inv_freq;
  Tensor divisors(DType::f32, from.shape());
  for (size_t i = 0; i < from.as<float>().size(); ++i)
    divisors.mutable_as<float>()[i] = from.as<float>()[i] / to.as<float>()[i];
  return divisors;
}

void put_gguf_config(const ModelConfig& config, ckpt::GgufMetadata& to) {
  check_writable(config);
  const std::string architecture = architecture_of(config), prefix = architecture + ".";
  to.text("general.architecture", architecture);
  to.text("general.type", "model");
  to.u32("general.quantization_version", 2);
  to.u32(prefix + "vocab_size", config.vocab_size);
  to.u32(prefix + "context_length", config.max_positions);
  to.u32(prefix + "embedding_length", config.hidden_size);
  to.u32(prefix + "block_count", config.layers);
  to.u32(prefix + "feed_forward_length", config.intermediate_size);
  to.u32(prefix + "attention.head_count", config.heads);
  to.u32(prefix + "attention.head_count_kv", config.kv_heads);
  to.u32(prefix + "attention.key_length", config.head_dim);
  to.u32(prefix + "attention.value_length", config.head_dim);
  to.f32(prefix + "attention.layer_norm_rms_epsilon", config.norm_eps);
  to.boolean(prefix + "attention.causal", config.attention == AttentionKind::causal);
  put_rope(config, prefix, to);
  put_experts(config, prefix, to);
  if (config.centered_norms) put_gemma(config, prefix, to);
  if (config.attention != AttentionKind::causal)
    to.boolean("diffusion.shift_logits", config.shift == 1);
  if (config.mask_token_id >= 0) to.u32("tokenizer.ggml.mask_token_id", config.mask_token_id);
  put_own_settings(config, to);
}

namespace {

// Returns the name of a pre-tokenizer scheme; "" when no named scheme is equal.
std::string scheme_of(const Json& pre_tokenizer) {
  for (const std::string& name : text::pre_tokenizer_schemes()) {
    const Json scheme = parse_json(text::pre_tokenizer_scheme(name).dump(), "scheme");
    if (scheme == pre_tokenizer) return name;
    // Qwen's files write out the default of the split, so only the patterns are compared.
    const auto pattern = [](const Json& json) {
      const Json first = json.contains("pretokenizers") && !json["pretokenizers"].empty()
                             ? json["pretokenizers"][0]
                             : Json();
      return first.contains("pattern") ? first["pattern"] : Json();
    };
    if (!pattern(scheme).is_null() && pattern(scheme) == pattern(pre_tokenizer)) return name;
  }
  return "";
}

struct TokenLists {
  std::vector<std::string> tokens;
  std::vector<int32_t> types; // 1 normal, 3 control, 4 user defined, 5 unused
  std::vector<std::string> merges;
};

void put_token(TokenLists& lists, const std::string& token, int64_t id, int32_t type) {
  if (id < 0 || id >= static_cast<int64_t>(lists.tokens.size())) return;
  lists.tokens[static_cast<size_t>(id)] = token;
  lists.types[static_cast<size_t>(id)] = type;
}

TokenLists token_lists(const Json& tokenizer, const ModelConfig& config) {
  constexpr int32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;
  TokenLists lists;
  for (int64_t id = 0; id < config.vocab_size; ++id) {
    lists.tokens.push_back(fmt::format("[PAD{}]", id)); // rows beyond the tokenizer
    lists.types.push_back(kUnused);
  }
  for (const auto& [token, id] : tokenizer.at("model").at("vocab").items())
    put_token(lists, token, id.get<int64_t>(), kNormal);
  if (tokenizer.contains("added_tokens")) {
    for (const Json& added : tokenizer["added_tokens"])
      put_token(lists, added.at("content").get<std::string>(), added.at("id").get<int64_t>(),
                added.value("special", false) ? kControl : kUserDefined);
  }
  for (const Json& merge : tokenizer.at("model").at("merges")) {
    lists.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                             : merge.at(0).get<std::string>() + " " +
                                                   merge.at(1).get<std::string>());
  }
  return lists;
}

// Returns the token that the template of tokenizer.json puts before the text, as gguf-py reads it;
// -1: no template.
int starts_with_token(const Json& post_processor) {
  if (!post_processor.is_object()) return -1;
  if (post_processor.value("type", "") == "Sequence" && post_processor.contains("processors")) {
    for (const Json& part : post_processor["processors"]) {
      if (const int found = starts_with_token(part); found >= 0) return found;
    }
  }
  if (post_processor.value("type", "") != "TemplateProcessing") return -1;
  const Json& single = post_processor.at("single");
  return !single.empty() && single[0].contains("SpecialToken") ? 1 : 0;
}

// GGUF has three keys for tokens that end an answer, and llama.cpp stops at each of them.
void put_ends(const text::Tokenizer& tokenizer, ckpt::GgufMetadata& to) {
  const text::SpecialIds& special = tokenizer.special();
  std::vector<std::string> keys = {"eom_token_id", "eot_token_id"};
  if (special.eos >= 0) to.u32("tokenizer.ggml.eos_token_id", special.eos);
  for (const int32_t id : tokenizer.ends()) {
    if (id == special.eos || keys.empty()) continue;
    to.u32("tokenizer.ggml." + keys.back(), id);
    keys.pop_back();
  }
}

} // namespace

bool put_gguf_tokenizer(const text::Tokenizer& own, std::string_view tokenizer_config,
                        const ModelConfig& config, ckpt::GgufMetadata& to, std::string* why) {
  const Json tokenizer = parse_json(own.to_json(), "tokenizer.json");
  const Json settings =
      tokenizer_config.empty() ? Json::object() : parse_json(tokenizer_config, "tokenizer_config");
  const Json model = tokenizer.value("model", Json::object());
  const std::string decoder = tokenizer.contains("decoder") && tokenizer["decoder"].is_object()
                                  ? tokenizer["decoder"].value("type", "")
                                  : "";
  if (model.value("type", "BPE") != "BPE" || decoder != "ByteLevel" || !model.contains("merges")) {
    *why = "the tokenizer is not a byte-level BPE and is left out";
    return false;
  }
  const std::string scheme = scheme_of(tokenizer.value("pre_tokenizer", Json()));
  if (scheme.empty()) {
    *why = "the tokenizer cuts words by a rule that has no name in GGUF and is left out";
    return false;
  }
  const TokenLists lists = token_lists(tokenizer, config);
  to.text("tokenizer.ggml.model", "gpt2");
  to.text("tokenizer.ggml.pre", scheme);
  to.texts("tokenizer.ggml.tokens", lists.tokens);
  to.integers("tokenizer.ggml.token_type", lists.types);
  to.texts("tokenizer.ggml.merges", lists.merges);
  if (own.special().bos >= 0) to.u32("tokenizer.ggml.bos_token_id", own.special().bos);
  if (own.special().pad >= 0) to.u32("tokenizer.ggml.padding_token_id", own.special().pad);
  put_ends(own, to);
  const int starts = starts_with_token(tokenizer.value("post_processor", Json()));
  if (starts >= 0)
    to.boolean("tokenizer.ggml.add_bos_token", starts == 1);
  else if (settings.contains("add_bos_token") && settings["add_bos_token"].is_boolean())
    to.boolean("tokenizer.ggml.add_bos_token", settings["add_bos_token"].get<bool>());
  if (own.chat_templates().size() == 1)
    to.text("tokenizer.chat_template", own.chat_templates()[0].text);
  return true;
}

} // namespace dllm::model
