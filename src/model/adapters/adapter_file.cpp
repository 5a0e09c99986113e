// Reads LoRA adapters as PEFT saves them: adapter_config.json, and adapter_model.safetensors with
// the tensors "base_model.model.<module>.lora_A.weight" (r, in) and "...lora_B.weight" (out, r).

#include "model/adapters/adapter_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/objects.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr const char *kAdapterConfig = "adapter_config.json",
                     *kAdapterTensors = "adapter_model.safetensors";
constexpr std::string_view kDown = ".lora_A.weight",
                           kUp = ".lora_B.weight", // as long as kDown
    kWeight = ".weight";

// Replaces the number of the layer: "a.layers.12.b" -> "a.layers.*.b". A stack is adapted as a
// whole.
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

// "base_model.model.<module>.lora_A.weight" -> "<module>"
std::string module_of(const std::string& tensor) {
  return tensor.substr(kAdapterPrefix.size(), tensor.size() - kAdapterPrefix.size() - kDown.size());
}

// Returns the name of the module in the model, which may have "model." before it.
std::string name_in_model(const ParamStore& params, const std::string& module,
                          const std::string& file) {
  for (const std::string& front : {std::string(), std::string("model.")}) {
    if (params.has(front + module + ".weight")) return front + module;
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

// Returns true when target_modules = "all-linear" includes this matrix. It does not include routers
// and gates, whose names differ from base to base.
bool is_linear(const ParamSpec& spec, const std::string& module) {
  return spec.role == ParamRole::weight && spec.layers > 0 && spec.element.rank() == 2 &&
         !module.ends_with(".gate") && !module.ends_with("_gate");
}

} // namespace

AdapterConfig AdapterFile::read_config(const Source& source) {
  const std::string file = source.describe() + "/" + kAdapterConfig;
  return AdapterConfig(parse_json(source.open(kAdapterConfig).text(), file), file);
}

AdapterFile::AdapterFile(const std::string& folder)
    : folder_(folder), source_(open_source(folder)), config_(read_config(*source_)) {
  const std::string file = source_->describe() + "/" + kAdapterTensors;
  tensors_ = std::make_unique<ckpt::SafetensorsFile>(source_->content(kAdapterTensors), file);
  if (tensors_->tensors().empty()) fail(Code::data_loss, "{} holds no tensors", file);
  pair_tensors();
  check_pairs();
}

void AdapterFile::pair_tensors() {
  for (const auto& [tensor, info] : tensors_->tensors()) {
    const bool down = tensor.ends_with(kDown);
    if (!tensor.starts_with(kAdapterPrefix) || (!down && !tensor.ends_with(kUp)))
      fail(Code::unimplemented, "{}: tensor {} is not a matrix of LoRA", tensors_->name(), tensor);
    Pair& pair = pairs_[module_of(tensor)];
    (down ? pair.down : pair.up) = tensor;
  }
}

void AdapterFile::check_pairs() const {
  const auto place = [&](const std::string& tensor) { return tensors_->info(tensor).begin; };
  const std::string* half = nullptr; // the first of the file
  for (const auto& [module, pair] : pairs_) {
    if (!pair.down.empty() && !pair.up.empty()) continue;
    const std::string& own = pair.down.empty() ? pair.up : pair.down;
    if (half == nullptr || place(own) < place(*half)) half = &own;
  }
  if (half != nullptr) {
    const bool down = half->ends_with(kDown);
    fail_with_hint("the file was cut or changed: save the adapter again", Code::data_loss,
                   "{}: {} has a lora_{} and no lora_{}", tensors_->name(), module_of(*half),
                   down ? "A" : "B", down ? "B" : "A");
  }
  for (const auto& [module, pair] : pairs_) {
    if (!config_.names(module)) {
      fail_with_hint("target_modules, exclude_modules and layers_to_transform choose the modules",
                     Code::invalid_argument,
                     "{}: {} has matrices, but {} does not choose this module", tensors_->name(),
                     module, kAdapterConfig);
    }
  }
}

int64_t AdapterFile::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, info] : tensors_->tensors()) bytes += info.end - info.begin;
  return bytes;
}

// Warns of modules that the config chooses and no layer of the file has. `kinds` lists the modules
// that the file has, such as "model.layers.*.mlp.up_proj".
void AdapterFile::warn_of_absent(const Model& model, const std::set<std::string>& kinds) const {
  if (!config_.chooses()) return;
  std::set<std::string> warned = kinds;
  for (const ParamStore::Physical& entry : model.params().physical()) {
    const ParamSpec& spec = entry.spec;
    if (spec.part != kBasePart || entry.scale_of >= 0) continue;
    if (spec.element.rank() < 2) continue; // norms and biases
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (const ParamPiece& piece : spec.pieces) {
        const std::string name = spec.logical_name(piece, layer);
        if (!name.ends_with(kWeight)) continue;
        const std::string module = name.substr(0, name.size() - kWeight.size());
        if (config_.is_all_linear() && !is_linear(spec, module)) continue;
        if (!config_.names(module) || !warned.insert(all_layers(module)).second) continue;
        log(LogLevel::warn, "{}: target_modules names {}, and no layer of it has matrices",
            tensors_->name(), all_layers(module));
      }
    }
  }
}

void AdapterFile::add_to(Model& model, const std::string& name, Task* task,
                         const Bytes& others) const {
  const int64_t total = others.before + bytes() + others.after;
  int64_t done = others.before;
  std::map<std::string, std::string> in_file; // names of the file, by those of the model
  std::set<std::string> kinds;
  for (const auto& [module, pair] : pairs_) {
    const std::string name = name_in_model(model.params(), module, tensors_->name());
    kinds.insert(all_layers(name));
    if (!in_file.emplace(name + std::string(kDown), pair.down).second)
      fail(Code::data_loss, "{}: {} and model.{} are one module", tensors_->name(), module, module);
    in_file.emplace(name + std::string(kUp), pair.up);
  }
  warn_of_absent(model, kinds);
  AdapterOptions options;
  options.name = name;
  options.rank = config_.rank();
  options.alpha = config_.alpha();
  for (const std::string& kind : kinds) options.targets.push_back(kind + std::string(kWeight));
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
  if (const std::optional<PartOrigin> origin = origin_at(folder_))
    model.set_origin_of(std::string(kAdapterPart) + name, *origin);
}

void load_adapters(Model& model, const std::string& folder, Task* task) {
  const store::TransferTask transfers(task);
  AdapterFile(folder).add_to(model, AdapterOptions().name, task, {});
}

} // namespace dllm::model
