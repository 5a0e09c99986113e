// LoRA adapters as PEFT saves them: adapter_config.json, and adapter_model.safetensors with the tensors
// "base_model.model.<module>.lora_A.weight" (r, in) and "...lora_B.weight" (out, r).

#include "model/adapter_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/store/objects.h"
#include "model/config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace dllm::model {
namespace {

constexpr const char *kAdapterConfig = "adapter_config.json",
                     *kAdapterTensors = "adapter_model.safetensors",
                     *kAdapterPrefix = "base_model.model.";
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
  const bool known = tensor.starts_with(kAdapterPrefix) &&
                     (tensor.ends_with(".lora_A.weight") || tensor.ends_with(".lora_B.weight"));
  const size_t start = std::char_traits<char>::length(kAdapterPrefix);
  if (!known) fail(Code::unimplemented, "{}: tensor {} is no matrix of LoRA", file, tensor);
  const std::string module = tensor.substr(start, cut - start);
  for (const std::string& front : {std::string(), std::string("model.")}) {
    if (params.has(front + module + ".weight")) return front + module + tensor.substr(cut);
  }
  fail(Code::not_found, "{}: the model has no matrix {}", file, module);
}

void expect_matrix(const ckpt::TensorInfo& info, const std::string& tensor, const Shape& expected,
                   const std::string& file) {
  if (info.shape != expected) {
    fail_with_hint("r of adapter_config.json is the rank of every matrix", Code::invalid_argument,
                   "{}: tensor {} has shape {}, expected {}", file, tensor, info.shape.text(),
                   expected.text());
  }
  if (!info.dtype || !is_float(*info.dtype)) {
    fail(Code::invalid_argument, "{}: tensor {} has type {}, expected a float type", file, tensor,
         info.type);
  }
}

} // namespace

AdapterFile::AdapterFile(const std::string& folder) {
  const auto source = open_source(folder);
  options_ = options_of(*source);
  const std::string file = source->describe() + "/" + kAdapterTensors;
  tensors_ = std::make_unique<ckpt::SafetensorsFile>(source->content(kAdapterTensors), file);
  if (tensors_->tensors().empty()) fail(Code::data_loss, "{} holds no tensors", file);
}

int64_t AdapterFile::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, info] : tensors_->tensors()) bytes += info.end - info.begin;
  return bytes;
}

void AdapterFile::add_to(Model& model, Task* task, int64_t done) const {
  const int64_t total = done + bytes();
  std::map<std::string, std::string> in_file; // names of the file, by those of the model
  std::set<std::string> targets;
  for (const auto& [tensor, info] : tensors_->tensors()) {
    const std::string name = adapted_name(model.params(), tensor, tensors_->name());
    in_file[name] = tensor;
    targets.insert(all_layers(name.substr(0, name.find(".lora_"))) + ".weight");
  }
  AdapterOptions options = options_;
  options.targets.assign(targets.begin(), targets.end());
  const bool checks = model.params().checks();
  const auto read = [&](const std::string& name, const Shape& whole, const Box& box) {
    const auto found = in_file.find(name);
    if (found == in_file.end()) return Tensor(); // a layer that the file leaves out
    const ckpt::TensorInfo& info = tensors_->info(found->second);
    expect_matrix(info, found->second, whole, tensors_->name());
    Tensor values = tensors_->part_copy(found->second, box, task);
    if (checks) check_finite(name, values);
    done += info.end - info.begin;
    if (task != nullptr) task->set_progress(std::min(done, total), total);
    return values;
  };
  add_adapters(model, options, read, task);
}

void load_adapters(Model& model, const std::string& folder, Task* task) {
  const store::TransferTask transfers(task);
  AdapterFile(folder).add_to(model, task, 0);
}

} // namespace dllm::model
