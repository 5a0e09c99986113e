#include "model/config.h"

#include "base/error.h"
#include "model/config_reader.h"
#include "model/families/family.h"
#include "model/rope.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr AttentionKind kKinds[] = {AttentionKind::automatic, AttentionKind::causal,
                                    AttentionKind::bidirectional, AttentionKind::block_causal,
                                    AttentionKind::two_stream};

// The settings beside the family; a file's own win over the family's.
void parse_settings(const ConfigReader& reader, ModelConfig& config) {
  config.mask_token_id = reader.integer("mask_token_id", -1, kMaxVocab, config.mask_token_id);
  if (!reader.has("dllm")) return;
  const ConfigReader own = reader.child("dllm");
  const AttentionKind kind = attention_from_name(own.text("attention", "auto"));
  if (kind == AttentionKind::two_stream)
    own.bad("attention", "auto, causal, bidirectional or block_causal");
  if (kind != AttentionKind::automatic) config.attention = kind;
  config.shift = static_cast<int>(own.integer("shift", 0, 1, config.shift));
  config.mask_token_id = own.integer("mask_token_id", -1, kMaxVocab, config.mask_token_id);
  config.block_length = own.integer("block_length", 0, kMaxPositions, config.block_length);
}

void check(bool holds, const std::string& file, const char* key, int64_t found,
           const std::string& expected) {
  if (!holds) fail(Code::invalid_argument, "{}: {} is {}, expected {}", file, key, found, expected);
}

} // namespace

std::string LayerRun::prefix() const {
  return first == 0 ? "layers." : fmt::format("layers@{}.", first);
}

std::vector<LayerRun> layer_runs(const ModelConfig& config, const std::set<int64_t>& cuts) {
  std::vector<LayerRun> runs;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const bool experts = !config.sparse.empty() && config.sparse[static_cast<size_t>(layer)];
    if (runs.empty() || runs.back().experts != experts || cuts.contains(layer)) runs.push_back({layer, 0, experts});
    ++runs.back().count;
  }
  return runs;
}

const char* attention_name(AttentionKind kind) {
  switch (kind) {
  case AttentionKind::automatic: return "auto";
  case AttentionKind::causal: return "causal";
  case AttentionKind::bidirectional: return "bidirectional";
  case AttentionKind::block_causal: return "block_causal";
  case AttentionKind::two_stream: return "two_stream";
  }
  return "unknown";
}

AttentionKind attention_from_name(std::string_view name) {
  for (const AttentionKind kind : kKinds) {
    if (name == attention_name(kind)) return kind;
  }
  fail_with_hint("use auto, causal, bidirectional, block_causal or two_stream",
                 Code::invalid_argument, "no attention kind named {}", name);
}

ModelConfig config_from_json(const Json& object, const std::string& file) {
  const ConfigReader reader(object, file);
  if (!reader.has("model_type")) reader.bad("model_type", "the name of a family");
  ModelConfig config;
  config.model_type = reader.text("model_type", "");
  const Family& family = family_of_model_type(config.model_type);
  config.family = family.name;
  family.parse(reader, config);
  parse_settings(reader, config);
  config.source = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  check_config(config, file);
  return config;
}

ModelConfig config_from_text(std::string_view text, const std::string& file) {
  return config_from_json(parse_json(text, file), file);
}

Json config_to_json(const ModelConfig& config) {
  Json object = config.source.empty() ? Json::object() : parse_json(config.source, "config.json");
  object["model_type"] = config.model_type;
  find_family(config.family).print(config, object);
  if (config.mask_token_id >= 0) object["mask_token_id"] = config.mask_token_id;
  object["dllm"] = Json{{"attention", attention_name(config.attention)},
                        {"shift", config.shift},
                        {"mask_token_id", config.mask_token_id},
                        {"block_length", config.block_length}};
  return object;
}

void check_config(const ModelConfig& config, const std::string& file) {
  check(config.vocab_size >= 1 && config.vocab_size <= kMaxVocab, file, "vocab_size",
        config.vocab_size, fmt::format("1 to {}", kMaxVocab));
  check(config.heads >= 1 && config.kv_heads >= 1 && config.heads % config.kv_heads == 0, file,
        "num_key_value_heads", config.kv_heads,
        fmt::format("a divisor of the {} attention heads", config.heads));
  check(config.head_dim >= 1 && config.query_size() <= kMaxSize, file, "head_dim", config.head_dim,
        fmt::format("1 to {}", kMaxSize / std::max<int64_t>(1, config.heads)));
  if (config.positions == PositionKind::rotary) {
    const int64_t rotary = rotary_size(config);
    check(rotary >= 2 && rotary % 2 == 0, file, "head_dim", config.head_dim,
          fmt::format("an even number of turning dims, these are {}", rotary));
    if (config.rope.type == "dynamic")
      check(rotary > 2, file, "head_dim", config.head_dim, "more than 2 turning dims");
  }
  const ExpertConfig& experts = config.experts;
  if (experts.count > 0) {
    // Each is a tensor with a name: a small file must not ask for a list of billions.
    constexpr int64_t kMaxExperts = int64_t{1} << 18; // of all layers; models of 10^12 numbers have 3 * 10^4
    const int64_t layers = config.sparse.empty()
                               ? 0
                               : std::count(config.sparse.begin(), config.sparse.end(), true);
    check(layers == 0 || experts.count <= kMaxExperts / layers, file, "num_experts", experts.count,
          fmt::format("at most {} in the {} layers together", kMaxExperts, layers));
    check(experts.count % experts.groups == 0, file, "n_group", experts.groups,
          fmt::format("a divisor of the {} experts", experts.count));
    check(experts.kept_groups <= experts.groups, file, "topk_group", experts.kept_groups,
          fmt::format("at most the {} groups", experts.groups));
    check(experts.per_token <= experts.count / experts.groups * experts.kept_groups, file,
          "num_experts_per_tok", experts.per_token,
          fmt::format("at most {}, the experts of {} of {} groups",
                      experts.count / experts.groups * experts.kept_groups, experts.kept_groups,
                      experts.groups));
  }
  check(config.mask_token_id < config.vocab_size, file, "mask_token_id", config.mask_token_id,
        fmt::format("less than vocab_size {}", config.vocab_size));
}

void apply_model_options(ModelConfig& config, const Options& options) {
  const AttentionKind kind = attention_from_name(options.str("attention"));
  if (kind != AttentionKind::automatic) config.attention = kind;
  if (options.i64("shift") >= 0) config.shift = static_cast<int>(options.i64("shift"));
  config.cache_dtype = options.str("cache_dtype") == "bf16" ? DType::bf16 : DType::f32;
}

} // namespace dllm::model
