// A config from the metadata of a GGUF file (ggml docs, gguf.md; gguf-py constants.py).

#include "base/error.h"
#include "ckpt/gguf.h"
#include "model/config.h"
#include "model/families/family.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

const Family& family_of_architecture(const std::string& name) {
  for (const Family* family : all_families()) {
    for (const char* own : family->gguf_names) {
      if (own != nullptr && name == own) return *family;
    }
  }
  fail_with_hint("GGUF architectures: llama qwen2 qwen3", Code::unimplemented,
                 "family {} is not supported yet", name.substr(0, 60));
}

// The config.json that would say the same, so that both ways go through one parser and one check.
class Translation {
public:
  Translation(const ckpt::GgufFile& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  bool has(const char* key) const { return file_.has(prefix_ + key); }
  int64_t integer(const char* key) const { return file_.integer(prefix_ + key); }
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

// Llama 3.1 and later are written with the divisor of every frequency instead of the rule. Finds
// the rule.
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
    from.object["rope_scaling"] = scaling;
  }
  recognise_rope_divisors(file, from.object);
}

} // namespace

ModelConfig config_from_gguf(const ckpt::GgufFile& file) {
  const std::string architecture = file.text("general.architecture");
  const Family& family = family_of_architecture(architecture);
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
  if (!from.has("embedding_length") || !from.has("attention.head_count")) {
    fail(Code::data_loss, "{}: {}.embedding_length and {}.attention.head_count are needed",
         file.name(), architecture, architecture);
  }
  const int64_t heads = std::max<int64_t>(1, from.integer("attention.head_count"));
  if (!object.contains("head_dim")) object["head_dim"] = from.integer("embedding_length") / heads;
  object["tie_word_embeddings"] = !file.has_tensor("output.weight");
  if (file.has_tensor("blk.0.attn_q.bias") && architecture == "llama")
    object["attention_bias"] = true;
  if (file.has("tokenizer.ggml.mask_token_id"))
    object["mask_token_id"] = file.integer("tokenizer.ggml.mask_token_id");
  translate_rope(file, from, std::max<int64_t>(1, object["head_dim"].get<int64_t>()));
  return config_from_json(object, file.name());
}

} // namespace dllm::model
