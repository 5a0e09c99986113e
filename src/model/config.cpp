#include "model/config.h"

#include "base/error.h"
#include "base/named_table.h"
#include "ckpt/part_names.h"
#include "model/families/config_keys.h"
#include "model/families/family.h"
#include "model/layers/layer_kind.h"
#include "model/network/edit_heads.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace dllm::model {
namespace {

constexpr AttentionKind kKinds[] = {AttentionKind::automatic, AttentionKind::causal,
                                    AttentionKind::bidirectional, AttentionKind::block_causal,
                                    AttentionKind::two_stream};

// Reads "mixers": ["attention", ...], the layer kind of each layer. Names are checked later,
// together with the numbers.
std::vector<std::string> parse_mixers(const ConfigReader& own, int64_t layers) {
  std::vector<std::string> mixers;
  const std::string expected = fmt::format("a list of {} layer kinds", layers);
  const Json& list = own.object().at("mixers");
  if (!list.is_array() || static_cast<int64_t>(list.size()) != layers) own.bad("mixers", expected);
  for (const Json& item : list) {
    if (!item.is_string()) own.bad("mixers", expected);
    try {
      mixers.push_back(find_layer_kind(LayerPart::mixer, item.get<std::string>()).name);
    } catch (const Error& error) {
      own.bad("mixers", expected + "; " + error.hint());
    }
  }
  return mixers;
}

// "heads": {"score": {"rows": 1, "softcap": 0, "bias": false, "file": "score_head"}}
std::vector<HeadConfig> parse_heads(const ConfigReader& own, bool is_tower) {
  std::vector<HeadConfig> heads;
  const ConfigReader all = own.child("heads");
  for (const auto& [name, words] : all.object().items()) {
    const ConfigReader head = all.child(name.c_str());
    if ((name == "lm" && !is_tower) || name.empty() ||
        name.find_first_of(".@{}[]") != std::string::npos)
      all.bad(name.c_str(), "another name than lm, without dots and brackets");
    heads.push_back({name, head.integer("rows", 1, kMaxVocab), "heads." + name,
                     head.number("softcap", 0, 1e6, 0), head.flag("bias", false),
                     head.text("file", ""), head.flag("zero", false),
                     head.integer("size", 0, kMaxSize, 0), head.flag("norm", false)});
    if (!is_tower && (heads.back().size > 0 || heads.back().norm))
      all.bad(name.c_str(), "a head without size and norm, which towers alone have");
  }
  return heads;
}

Json print_head(const HeadConfig& head) {
  Json object = {{"rows", head.rows}, {"softcap", head.softcap}};
  if (head.bias) object["bias"] = true;
  if (!head.file.empty()) object["file"] = head.file;
  if (head.zero) object["zero"] = true;
  if (head.size > 0) object["size"] = head.size;
  if (head.norm) object["norm"] = true;
  return object;
}

// Reads "objective". A name that the library lacks is kept, because a later version may know it.
std::string parse_objective(const ConfigReader& own) {
  constexpr size_t kLongest = 100;
  std::string name = own.text("objective", "");
  const bool is_plain = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
  if (!is_plain || name.size() > kLongest) own.bad("objective", "the name of an objective");
  return name;
}

// "parts": {"encoder": {"model_type": "dllm_tower", ...}}. The configs are checked here.
std::string parse_parts(const ConfigReader& own) {
  constexpr size_t kMaxParts = 64; // each has as many tensors as a model
  const ConfigReader all = own.child("parts");
  if (all.object().size() > kMaxParts)
    own.bad("parts", fmt::format("at most {} networks", kMaxParts));
  for (const auto& [name, words] : all.object().items()) {
    const ConfigReader part = all.child(name.c_str());
    const bool is_plain = std::ranges::all_of(
        name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
    if (name.empty() || !is_plain || name == ckpt::kBasePart)
      all.bad(name.c_str(), "a name of letters, digits, _ and - other than base");
    const ModelConfig config =
        config_from_json(part.object(), fmt::format("{}: part {}", own.file(), name));
    if (!config.parts.empty()) part.bad("dllm", "a network without parts of its own");
  }
  return all.object().empty() ? "" : all.object().dump();
}

constexpr FillerKind kFillerKinds[] = {FillerKind::none, FillerKind::small, FillerKind::unet,
                                       FillerKind::adapter};

// "filler": {"kind": "unet", "scale": 0.1, "levels": 3, "gaussian": true}
FillerConfig parse_filler(const ConfigReader& own) {
  const ConfigReader reader = own.child("filler");
  FillerConfig filler;
  const std::string name = reader.text("kind", "none");
  const auto* kind = std::ranges::find(kFillerKinds, name, filler_kind_name);
  if (kind == std::end(kFillerKinds)) reader.bad("kind", "none, small, unet or adapter");
  filler.kind = *kind;
  filler.scale = reader.number("scale", 0, 1e6, 0);
  constexpr int64_t kMostLevels = 16;
  if (filler.kind == FillerKind::unet) filler.levels = reader.integer("levels", 1, kMostLevels);
  filler.is_gaussian = reader.flag("gaussian", false);
  filler.reads_prompt = reader.text("context", "visible") == "prompt";
  filler.length = reader.number("length", 0, 1e6, 0);
  return filler;
}

Json print_filler(const FillerConfig& filler) {
  Json object = {{"kind", filler_kind_name(filler.kind)}, {"scale", filler.scale}};
  if (filler.levels > 0) object["levels"] = filler.levels;
  if (filler.is_gaussian) object["gaussian"] = true;
  if (filler.reads_prompt) object["context"] = "prompt";
  if (filler.length > 0) object["length"] = filler.length;
  return object;
}

// Reads the settings outside of the family. Settings of the file replace the family's.
void parse_settings(const ConfigReader& reader, ModelConfig& config) {
  config.mask_token_id = reader.integer("mask_token_id", -1, kMaxVocab, config.mask_token_id);
  if (!reader.has("dllm")) {
    config.next_token =
        config.attention == AttentionKind::causal && config.shift == 0 && config.mask_token_id < 0;
    return;
  }
  const ConfigReader own = reader.child("dllm");
  const AttentionKind kind = attention_from_name(own.text("attention", "auto"));
  if (kind == AttentionKind::two_stream)
    own.bad("attention", "auto, causal, bidirectional or block_causal");
  if (kind != AttentionKind::automatic) config.attention = kind;
  config.shift = static_cast<int>(own.integer("shift", 0, 1, config.shift));
  config.mask_token_id = own.integer("mask_token_id", -1, kMaxVocab, config.mask_token_id);
  config.block_length = own.integer("block_length", 0, kMaxPositions, config.block_length);
  config.objective = parse_objective(own);
  if (own.has("schedule")) config.schedule = own.child("schedule").object().dump();
  config.next_token = own.flag("next_token", false);
  if (own.has("mixers")) config.mixers = parse_mixers(own, config.layers);
  if (own.has("heads")) config.other_heads = parse_heads(own, config.tower.on);
  if (own.has("parts")) config.parts = parse_parts(own);
  if (own.has("filler")) config.filler = parse_filler(own);
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
    const auto at = static_cast<size_t>(layer);
    const LayerKind* mixer =
        config.mixers.empty() ? &kAttention : &find_layer_kind(LayerPart::mixer, config.mixers[at]);
    const bool sparse = !config.sparse.empty() && config.sparse[at];
    const LayerKind* network = !sparse ? &kMlp : config.experts.with_mlp ? &kMlpExperts : &kExperts;
    const bool alike = config.first_norm || layer != 1; // the first layer lacks a parameter
    // With a canvas windows are a mask of the whole run (canvas_window).
    const bool slides_alike =
        !config.canvas || runs.empty() ||
        config.sliding[at] == config.sliding[static_cast<size_t>(runs.back().first)];
    const bool same = !runs.empty() && alike && slides_alike && runs.back().mixer == mixer &&
                      runs.back().network == network;
    if (!same || cuts.contains(layer)) runs.push_back({layer, 0, mixer, network});
    ++runs.back().count;
  }
  return runs;
}

std::vector<HeadConfig> model_heads(const ModelConfig& config) {
  std::vector<HeadConfig> heads;
  if (!config.tower.on) {
    heads.push_back({"lm", config.vocab_size, config.tie_embeddings ? "embedding" : "head",
                     config.logit_softcap});
  }
  heads.insert(heads.end(), config.other_heads.begin(), config.other_heads.end());
  return heads;
}

std::vector<std::pair<std::string, ModelConfig>> part_configs(const ModelConfig& config) {
  std::vector<std::pair<std::string, ModelConfig>> configs;
  if (config.parts.empty()) return configs;
  const Json parts = parse_json(config.parts, "parts of config.json");
  for (const auto& [name, object] : parts.items())
    configs.emplace_back(name, config_from_json(object, "config.json: part " + name));
  return configs;
}

void add_parts(ModelConfig& config, const std::map<std::string, Json>& parts) {
  Json all = config.parts.empty() ? Json::object() : parse_json(config.parts, "parts");
  for (const auto& [name, network] : parts) {
    if (!all.contains(name)) all[name] = network;
  }
  config.parts = all.empty() ? "" : all.dump();
}

const char* filler_kind_name(FillerKind kind) {
  switch (kind) {
  case FillerKind::none: return "none";
  case FillerKind::small: return "small";
  case FillerKind::unet: return "unet";
  case FillerKind::adapter: return "adapter";
  }
  return "unknown";
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
  return need_named(kKinds, name, attention_name,
                    {"attention kind", "", "", Code::invalid_argument});
}

ModelConfig config_from_json(const Json& object, const std::string& file) {
  const ConfigReader reader(object, file);
  if (!reader.has("model_type")) reader.bad("model_type", "the name of a family");
  ModelConfig config;
  config.model_type = reader.text("model_type", "");
  // "editflow-qwen3" (ZHZisZZ/dllm): the family after the prefix, with the heads of edit flows.
  const bool edits = config.model_type.starts_with(kEditPrefix);
  const std::string own_type =
      edits ? config.model_type.substr(std::string_view(kEditPrefix).size()) : config.model_type;
  const Family& family = family_of_model_type(own_type);
  config.family = family.name;
  check_config_keys(reader, own_type);
  if (reader.has("text_config") && object.at("text_config").is_object())
    check_config_keys(reader.child("text_config"), own_type);
  family.parse(reader, config);
  if (edits) {
    config.attention = AttentionKind::bidirectional;
    add_edit_heads(config);
  }
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
  if (!config.objective.empty()) object["dllm"]["objective"] = config.objective;
  if (!config.schedule.empty())
    object["dllm"]["schedule"] = parse_json(config.schedule, "the schedule of config.json");
  if (config.next_token) object["dllm"]["next_token"] = true;
  if (!config.mixers.empty()) object["dllm"]["mixers"] = config.mixers;
  for (const HeadConfig& head : config.other_heads)
    object["dllm"]["heads"][head.name] = print_head(head);
  if (config.filler.on()) object["dllm"]["filler"] = print_filler(config.filler);
  if (!config.parts.empty()) object["dllm"]["parts"] = parse_json(config.parts, "parts");
  return object;
}

namespace {

void check_heads(const ModelConfig& config, const std::string& file) {
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
}

} // namespace

ModelConfig with_global_heads(const ModelConfig& config) {
  ModelConfig made = config;
  if (config.global_attention.head_dim == 0) return made;
  made.kv_heads = config.global_attention.kv_heads;
  made.head_dim = config.global_attention.head_dim;
  return made;
}

void check_config(const ModelConfig& config, const std::string& file) {
  if (!config.tower.on) {
    check(config.vocab_size >= 1 && config.vocab_size <= kMaxVocab, file, "vocab_size",
          config.vocab_size, fmt::format("1 to {}", kMaxVocab));
  }
  check_heads(config, file);
  if (config.global_attention.head_dim > 0) check_heads(with_global_heads(config), file);
  const ExpertConfig& experts = config.experts;
  if (experts.count > 0) {
    // Each of these is a tensor with a name, and a small file must not request a list of billions.
    constexpr int64_t kMaxExperts = int64_t{1}
                                    << 18; // of all layers; models of 10^12 numbers have 3 * 10^4
    const int64_t layers =
        config.sparse.empty() ? 0 : std::count(config.sparse.begin(), config.sparse.end(), true);
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
  if (config.tower.on) return;
  check(config.mask_token_id < config.vocab_size, file, "mask_token_id", config.mask_token_id,
        fmt::format("less than vocab_size {}", config.vocab_size));
}

void apply_model_options(ModelConfig& config, const Options& options) {
  const AttentionKind kind = attention_from_name(options.str("attention"));
  if (kind != AttentionKind::automatic) config.attention = kind;
  if (options.i64("shift") >= 0) config.shift = static_cast<int>(options.i64("shift"));
  const std::string& cache = options.str("cache_dtype");
  config.cache_dtype = cache == "bf16" ? DType::bf16 : cache == "int8" ? DType::i8 : DType::f32;
}

std::string shown_value(const Json& value) {
  constexpr size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

ConfigReader::ConfigReader(const Json& object, std::string file)
    : object_(object), file_(std::move(file)) {
  if (!object_.is_object())
    fail(Code::invalid_argument, "{}: expected a JSON object, found {}", file_,
         shown_value(object_));
}

bool ConfigReader::has(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

void ConfigReader::bad(const char* key, const std::string& expected) const {
  const auto found = object_.find(key);
  if (found == object_.end())
    fail(Code::invalid_argument, "{}: {}{} is missing, expected {}", file_, path_, key, expected);
  fail(Code::invalid_argument, "{}: {}{} is {}, expected {}", file_, path_, key,
       shown_value(*found), expected);
}

int64_t ConfigReader::integer(const char* key, int64_t low, int64_t high) const {
  const std::string expected = fmt::format("an integer from {} to {}", low, high);
  if (!has(key)) bad(key, expected);
  const Json& value = object_.at(key);
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() > static_cast<uint64_t>(high)) bad(key, expected);
  } else if (!value.is_number_integer()) {
    bad(key, expected);
  }
  const auto number = value.get<int64_t>();
  if (number < low || number > high) bad(key, expected);
  return number;
}

int64_t ConfigReader::integer(const char* key, int64_t low, int64_t high, int64_t otherwise) const {
  return has(key) ? integer(key, low, high) : otherwise;
}

double ConfigReader::number(const char* key, double low, double high, double otherwise) const {
  if (!has(key)) return otherwise;
  const std::string expected = fmt::format("a number from {} to {}", low, high);
  if (!object_.at(key).is_number()) bad(key, expected);
  const auto value = object_.at(key).get<double>();
  if (!(value >= low && value <= high)) bad(key, expected);
  return value;
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_boolean()) bad(key, "true or false");
  return object_.at(key).get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_string()) bad(key, "a string");
  return object_.at(key).get<std::string>();
}

ConfigReader ConfigReader::child(const char* key) const {
  if (!has(key) || !object_.at(key).is_object()) bad(key, "an object");
  ConfigReader made(object_.at(key), file_);
  made.path_ = path_ + key + ".";
  return made;
}

void ConfigReader::require_flag(const char* key, bool wanted) const {
  if (flag(key, wanted) != wanted) {
    fail(Code::unimplemented, "{}: {}{} = {} is not supported yet", file_, path_, key, !wanted);
  }
}

void ConfigReader::require_text(const char* key, std::initializer_list<const char*> wanted) const {
  if (!has(key)) return;
  const std::string found = text(key, "");
  for (const char* name : wanted) {
    if (found == name) return;
  }
  fail(Code::unimplemented, "{}: {}{} = {} is not supported yet", file_, path_, key,
       shown_value(object_.at(key)));
}

} // namespace dllm::model
