// LoRA adapters as PEFT saves them: adapter_config.json, and adapter_model.safetensors with the tensors
// "base_model.model.<module>.lora_A.weight" (r, in) and "...lora_B.weight" (out, r).

#include "base/error.h"
#include "base/files.h"
#include "ckpt/safetensors.h"
#include "model/config.h"
#include "model/model.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace dllm::model {
namespace {

constexpr const char *kAdapterConfig = "adapter_config.json", *kTensors = "adapter_model.safetensors",
                     *kPrefix = "base_model.model.";
constexpr int64_t kMostRank = 1 << 16;

// rank and alpha of the file; what would compute something else is refused.
AdapterOptions options_of(const Source& source) {
  const std::string file = source.describe() + "/" + kAdapterConfig;
  const Json json = parse_json(source.open(kAdapterConfig).text(), file);
  const ConfigReader config(json, file);
  config.require_text("peft_type", {"LORA"});
  config.require_text("bias", {"none"});
  for (const char* flag : {"use_dora", "fan_in_fan_out"}) {
    if (config.has(flag)) config.require_flag(flag, false);
  }
  for (const char* list : {"rank_pattern", "alpha_pattern", "modules_to_save"}) {
    if (config.has(list) && !config.object().at(list).empty())
      fail(Code::unimplemented, "{}: {} is not supported", file, list);
  }
  AdapterOptions options;
  options.rank = config.integer("r", 1, kMostRank, 8);
  options.alpha = config.number("lora_alpha", 0, 1e9, 8);
  // Rank-stabilised: alpha / sqrt(r) in place of alpha / r.
  if (config.has("use_rslora") && config.object().at("use_rslora") == true)
    options.alpha *= std::sqrt(static_cast<double>(options.rank));
  return options;
}

// "a.layers.12.b" -> "a.layers.*.b": a stack is adapted whole.
std::string all_layers(const std::string& name) {
  std::string made;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    const bool number =
        !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
    made += (begin == 0 ? "" : ".") + (number ? std::string("*") : word);
    begin = end + 1;
  }
  return made;
}

// "base_model.model.x.lora_A.weight" -> the tensor of the model under its name or with "model." in front; the ending behind it.
std::string adapted_name(const ParamStore& params, const std::string& tensor,
                         const std::string& file) {
  const size_t cut = tensor.find(".lora_");
  const bool known = tensor.starts_with(kPrefix) &&
                     (tensor.ends_with(".lora_A.weight") || tensor.ends_with(".lora_B.weight"));
  const size_t start = std::char_traits<char>::length(kPrefix);
  if (!known) fail(Code::unimplemented, "{}: tensor {} is no matrix of LoRA", file, tensor);
  const std::string module = tensor.substr(start, cut - start);
  for (const std::string& front : {std::string(), std::string("model.")}) {
    if (params.has(front + module + ".weight")) return front + module + tensor.substr(cut);
  }
  fail(Code::not_found, "{}: the model has no matrix {}", file, module);
}

} // namespace

void load_adapters(Model& model, const std::string& folder) {
  const auto source = open_source(folder);
  AdapterOptions options = options_of(*source);
  const std::string file = source->describe() + "/" + kTensors;
  const ckpt::SafetensorsFile tensors(source->content(kTensors), file);
  std::map<std::string, std::string> names; // of the model, by those of the file
  std::set<std::string> targets;
  for (const auto& [tensor, info] : tensors.tensors()) {
    const std::string name = adapted_name(model.params(), tensor, file);
    names[tensor] = name;
    targets.insert(all_layers(name.substr(0, name.find(".lora_"))) + ".weight");
  }
  if (targets.empty()) fail(Code::data_loss, "{} holds no tensors", file);
  options.targets.assign(targets.begin(), targets.end());
  add_adapters(model, options); // B is zero in layers that the file leaves out
  for (const auto& [tensor, name] : names) model.params().write(name, tensors.tensor(tensor));
}

} // namespace dllm::model
