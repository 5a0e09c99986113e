#include "train/checkpoint/checkpoint_facts.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/model_place.h"
#include "ckpt/part_names.h"
#include "ckpt/weights_on_disk.h"
#include "model/config.h"
#include "model/model.h"

#include <nlohmann/json.hpp>

#include <array>
#include <map>
#include <optional>

namespace dllm::train {
namespace {

constexpr const char* kTrainerRecord = "trainer.json";

Json network_facts(const model::ModelConfig& config) {
  Json made = {
      {"family", config.family}, {"layers", config.layers}, {"hidden", config.hidden_size}};
  if (!config.tower.on) return made;
  constexpr std::array kLevels = {"none", "added", "adaptive"};
  for (const model::InputConfig& input : config.tower.inputs)
    made["inputs"].push_back({{"name", input.name}, {"size", input.size}});
  if (config.tower.latents > 0) made["latents"] = config.tower.latents;
  if (config.tower.context > 0) made["context"] = config.tower.context;
  if (config.tower.level != model::LevelKind::none)
    made["level"] = kLevels[static_cast<size_t>(config.tower.level)];
  for (const model::HeadConfig& head : config.other_heads)
    made["heads"].push_back({{"name", head.name}, {"rows", head.rows}});
  return made;
}

// Returns the configs of the networks by name, as far as they can be read.
std::map<std::string, model::ModelConfig> configs_of(const ckpt::ModelPlace& place) {
  std::map<std::string, model::ModelConfig> made;
  const auto add = [&](const std::string& name, const std::string& address,
                       const std::optional<ckpt::ModelPlace::Use>& use) {
    try {
      made[name] = use ? model::config_from_text(use->config, use->where)
                       : model::read_config(*ckpt::open_model_source(address));
    } catch (const Error&) { // the part is listed without these facts
      made.erase(name);
    }
  };
  add(ckpt::kBasePart, place.base, place.use);
  for (const ckpt::ModelPlace::Network& network : place.networks)
    add(network.name, network.folder, network.use);
  const auto base = made.find(ckpt::kBasePart);
  if (base == made.end() || base->second.parts.empty()) return made;
  for (const auto& [name, config] : model::part_configs(base->second))
    made.try_emplace(name, config);
  return made;
}

// Returns the number of parameters of each part whose tensors are listed.
std::map<std::string, int64_t> counts_of(const Json& tensors, const Json& parts) {
  std::map<std::string, int64_t> counts;
  for (const Json& tensor : tensors) {
    const auto name = tensor.at("name").get<std::string>();
    const std::string prefix = name.substr(0, name.find('/'));
    bool is_other = false;
    for (const Json& part : parts) is_other = is_other || part.at("name") == prefix;
    int64_t count = 1;
    for (const Json& extent : tensor.at("shape")) count *= extent.get<int64_t>();
    counts[is_other && prefix != name ? prefix : ckpt::kBasePart] += count;
  }
  return counts;
}

std::optional<int64_t> count_at(const std::string& address) {
  try {
    return ckpt::WeightsOnDisk(address).describe().at("parameters").get<int64_t>();
  } catch (const Error&) { // a reference to files that are gone
    return std::nullopt;
  }
}

// Returns the record of the run that made a checkpoint; an empty object without one.
Json record_at(const std::string& checkpoint) {
  const std::string path = join_path(checkpoint, kTrainerRecord);
  if (checkpoint.empty() || !file_exists(path)) return Json::object();
  const Json record = parse_json(read_text(path), path);
  return record.is_object() ? record : Json::object();
}

// Adds what the run's record says about a part.
void add_record(const Json& record, Json& part) {
  const auto rows = record.find("parts");
  if (rows != record.end() && rows->is_array()) {
    for (const Json& row : *rows) {
      if (row.is_object() && row.value("name", Json()) == part["name"] && row.contains("trained"))
        part["trained"] = row["trained"];
    }
  }
  if (part["stored"] == "reference") part["trained"] = false;
  const Json::json_pointer reads("/objective/reads");
  if (!record.contains(reads) || !record.at(reads).is_object()) return;
  const Json& all = record.at(reads);
  const auto name = part["name"].get<std::string>();
  if (all.contains(name)) part["reads"] = all[name];
}

// Returns the parts of a folder of a model: the base, and the networks in its config.
Json parts_of_folder(const std::string& path,
                     const std::map<std::string, model::ModelConfig>& configs) {
  Json parts = Json::array();
  if (configs.size() < 2) return parts;
  const auto add = [&](const std::string& name) {
    parts.push_back({{"name", name}, {"kind", "network"}, {"stored", "value"}, {"address", path}});
  };
  add(ckpt::kBasePart);
  for (const auto& [name, config] : configs) {
    if (name != ckpt::kBasePart) add(name);
  }
  return parts;
}

} // namespace

Json describe_parts(const std::string& path, const Json& about) {
  const ckpt::ModelPlace place = ckpt::model_place(path);
  const std::map<std::string, model::ModelConfig> configs = configs_of(place);
  Json parts = about.contains("parts") ? about.at("parts") : parts_of_folder(path, configs);
  const std::map<std::string, int64_t> counts = counts_of(about.at("tensors"), parts);
  const Json record = record_at(place.checkpoint);
  for (Json& part : parts) {
    const auto name = part.at("name").get<std::string>();
    if (const auto config = configs.find(name); config != configs.end())
      part.update(network_facts(config->second));
    if (const auto count = counts.find(name); count != counts.end())
      part["parameters"] = count->second;
    else if (const auto found = count_at(part.at("address").get<std::string>()))
      part["parameters"] = *found;
    add_record(record, part);
  }
  return parts;
}

} // namespace dllm::train
