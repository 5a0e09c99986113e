// Towers: networks over vectors, the parts of latent models (docs/decisions/0025-towers.md). The
// family is of this project. Its layers are those of a transformer, with cross attention and a
// noise level where the config asks for them.

#include "base/error.h"
#include "model/families/keys.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr int64_t kMaxInputs = 64;

struct LevelName {
  const char* name;
  LevelKind kind;
};
constexpr LevelName kLevels[] = {
    {"none", LevelKind::none}, {"added", LevelKind::added}, {"adaptive", LevelKind::adaptive}};

struct PositionName {
  const char* name;
  PositionKind kind;
};
constexpr PositionName kPositions[] = {{"none", PositionKind::none},
                                       {"rotary", PositionKind::rotary},
                                       {"learned", PositionKind::learned}};

// Returns the entry of a table that the key names, or the first one.
template <class Entry, size_t kSize>
const Entry& named_choice(const ConfigReader& reader, const char* key,
                          const Entry (&table)[kSize]) {
  const std::string found = reader.text(key, table[0].name);
  const auto* entry = std::ranges::find(table, found, [](const Entry& e) { return e.name; });
  if (entry == std::end(table)) {
    std::string names;
    for (const Entry& other : table)
      names += names.empty() ? other.name : std::string(" ") + other.name;
    reader.bad(key, "one of: " + names);
  }
  return *entry;
}

template <class Entry, class Kind, size_t kSize>
const char* name_of_kind(const Entry (&table)[kSize], Kind kind) {
  return std::ranges::find(table, kind, &Entry::kind)->name;
}

// "inputs": {"z": {"size": 16, "bias": true}}
std::vector<InputConfig> parse_inputs(const ConfigReader& reader) {
  std::vector<InputConfig> inputs;
  if (!reader.has("inputs")) return inputs;
  const ConfigReader all = reader.child("inputs");
  if (std::ssize(all.object()) > kMaxInputs)
    reader.bad("inputs", fmt::format("at most {} inputs", kMaxInputs));
  for (const auto& [name, words] : all.object().items()) {
    if (name.empty() || name.find_first_of(".@{}[]/") != std::string::npos)
      all.bad(name.c_str(), "a name without dots, slashes and brackets");
    const ConfigReader input = all.child(name.c_str());
    inputs.push_back({name, input.integer("size", 1, kMaxSize), input.flag("bias", true)});
  }
  return inputs;
}

void parse_tower(const ConfigReader& reader, ModelConfig& config) {
  TowerConfig& tower = config.tower;
  tower.on = true;
  config.hidden_size = reader.integer("hidden_size", 1, kMaxSize);
  config.layers = reader.integer("num_hidden_layers", 0, kMaxLayers);
  config.heads = reader.integer("num_attention_heads", 1, kMaxSize, 8);
  config.kv_heads = reader.integer("num_key_value_heads", 1, kMaxSize, config.heads);
  if (!reader.has("head_dim") && config.hidden_size % config.heads != 0) {
    reader.bad("num_attention_heads",
               fmt::format("a divisor of hidden_size {}", config.hidden_size));
  }
  config.head_dim = reader.integer("head_dim", 1, kMaxSize, config.hidden_size / config.heads);
  config.intermediate_size =
      reader.integer("intermediate_size", 1, kMaxSize, 4 * config.hidden_size);
  config.max_positions = reader.integer("max_position_embeddings", 1, kMaxPositions, 4096);
  config.norm_eps = reader.number("norm_eps", 0, 1, 1e-5);
  config.init_std = reader.number("initializer_range", 0, 100, 0.02);
  config.activation = parse_activation(reader, "hidden_act", "gelu");
  config.gated_mlp = reader.flag("gated_mlp", false);
  config.qkv_bias = reader.flag("attention_bias", false);
  config.out_bias = reader.flag("attention_out_bias", true);
  config.mlp_bias = reader.flag("mlp_bias", true);
  config.qk_norm = reader.flag("qk_norm", false);
  const std::string norm = reader.text("norm", "layer");
  if (norm != "layer" && norm != "rms") reader.bad("norm", "layer or rms");
  config.norm = norm == "rms" ? NormKind::rms : NormKind::layer;
  config.positions = named_choice(reader, "positions", kPositions).kind;
  if (config.positions == PositionKind::rotary) config.rope = parse_rope(reader);
  config.attention = AttentionKind::bidirectional;
  tower.inputs = parse_inputs(reader);
  tower.latents = reader.integer("latents", 0, kMaxPositions, 0);
  tower.context = reader.integer("context_size", 0, kMaxSize, 0);
  tower.context_layer = reader.integer("context_layer", -kMaxLayers, kMaxLayers, -1);
  tower.level = named_choice(reader, "level", kLevels).kind;
  tower.level_size = reader.integer("level_size", 1, kMaxSize, 1);
  tower.last_norm = reader.flag("last_norm", true);
  const std::string mixer = reader.text("mixer", "attention");
  const bool is_known = mixer == kAttention.name || mixer == kCrossAttention.name ||
                        mixer == kSelfCrossAttention.name;
  if (!is_known) {
    reader.bad("mixer", fmt::format("{}, {} or {}", kAttention.name, kCrossAttention.name,
                                    kSelfCrossAttention.name));
  }
  if (mixer != kAttention.name && tower.context == 0)
    reader.bad("context_size", fmt::format("the size of what {} looks at", mixer));
  config.mixers.assign(static_cast<size_t>(config.layers), mixer);
}

void print_tower(const ModelConfig& config, Json& object) {
  const TowerConfig& tower = config.tower;
  object["hidden_size"] = config.hidden_size;
  object["num_hidden_layers"] = config.layers;
  object["num_attention_heads"] = config.heads;
  object["num_key_value_heads"] = config.kv_heads;
  object["head_dim"] = config.head_dim;
  object["intermediate_size"] = config.intermediate_size;
  object["max_position_embeddings"] = config.max_positions;
  object["norm_eps"] = config.norm_eps;
  object["initializer_range"] = config.init_std;
  if (!object.contains("hidden_act")) object["hidden_act"] = print_activation(config.activation);
  object["gated_mlp"] = config.gated_mlp;
  object["attention_bias"] = config.qkv_bias;
  object["attention_out_bias"] = config.out_bias;
  object["mlp_bias"] = config.mlp_bias;
  object["qk_norm"] = config.qk_norm;
  object["norm"] = config.norm == NormKind::rms ? "rms" : "layer";
  object["positions"] = name_of_kind(kPositions, config.positions);
  if (config.positions == PositionKind::rotary) print_rope(config, object);
  object["inputs"] = Json::object();
  for (const InputConfig& input : tower.inputs)
    object["inputs"][input.name] = {{"size", input.size}, {"bias", input.bias}};
  object["latents"] = tower.latents;
  object["context_size"] = tower.context;
  object["context_layer"] = tower.context_layer;
  object["level"] = name_of_kind(kLevels, tower.level);
  object["level_size"] = tower.level_size;
  object["last_norm"] = tower.last_norm;
  object["mixer"] = config.mixers.empty() ? kAttention.name : config.mixers.front();
}

// The norms of a tower have biases, so they are named here. Other names follow from the kinds.
TensorNames tower_names(const ModelConfig& config) {
  TensorNames names;
  const std::string layer = "layers.{}.";
  names.layer = layer;
  for (const char* name : {"attention_norm", "cross_norm", "mlp_norm"}) {
    names[name] = layer + name + ".weight";
    if (config.norm == NormKind::layer) names[std::string(name) + ".bias"] = layer + name + ".bias";
  }
  names["norm"] = "norm.weight";
  if (config.norm == NormKind::layer) names["norm.bias"] = "norm.bias";
  for (const HeadConfig& head : config.other_heads) {
    if (head.norm) names[head.weight + ".norm.bias"] = head.weight + ".norm.bias";
  }
  names["latents"] = "latents";
  names["positions"] = "positions";
  return names;
}

void add_level_params(ParamTable& table, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  if (config.tower.level == LevelKind::none) return;
  table.matrix("time.in", hidden, config.tower.level_size, true);
  if (config.tower.level == LevelKind::adaptive) table.matrix("time.mid", hidden, hidden, true);
  table.matrix("time.out", hidden, hidden, true);
}

std::vector<ParamSpec> tower_params(const ModelConfig& config) {
  const TowerConfig& tower = config.tower;
  const int64_t hidden = config.hidden_size;
  ParamTable table(config, tower_names(config));
  if (tower.latents > 0) table.add("latents", ParamRole::positions, {tower.latents, hidden});
  if (config.positions == PositionKind::learned)
    table.add("positions", ParamRole::positions, {config.max_positions, hidden});
  for (const InputConfig& input : tower.inputs)
    table.matrix("inputs." + input.name, hidden, input.size, input.bias);
  add_level_params(table, config);
  for (const LayerRun& run : layer_runs(config)) add_layer_params(table, config, run);
  if (tower.last_norm) add_block_norm(table, config, "norm", false);
  for (const HeadConfig& head : config.other_heads) {
    const int64_t size = head.size > 0 ? head.size : hidden;
    if (head.norm) {
      table.add(head.weight + ".norm", ParamRole::norm, {size});
      table.add(head.weight + ".norm.bias", ParamRole::bias, {size});
    }
    table.matrix(head.weight, head.rows, size, head.bias);
    if (head.zero) table.set_zero();
  }
  return table.take();
}

} // namespace

extern const Family kTower;
const Family kTower = {"dllm_tower", {"dllm_tower"}, {}, parse_tower, print_tower, tower_params};

} // namespace dllm::model
