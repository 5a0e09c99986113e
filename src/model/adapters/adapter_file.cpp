// Reads LoRA adapters as PEFT saves them: adapter_config.json, and adapter_model.safetensors with
// the tensors "base_model.model.<module>.lora_A.weight" (r, in) and "...lora_B.weight" (out, r).
// DoRA also has "...lora_magnitude_vector" (out), whose name may end in ".weight".

#include "model/adapters/adapter_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/objects.h"
#include "model/adapters/adapter_save.h"
#include "model/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr const char *kAdapterConfig = "adapter_config.json",
                     *kAdapterTensors = "adapter_model.safetensors";
constexpr std::string_view kDown = ".lora_A.weight",
                           kUp = ".lora_B.weight", // as long as kDown
    kWeight = ".weight";

// Replaces numbers by *, except for the first `kept` of them: "a.layers.12.experts.3.b" ->
// "a.layers.12.experts.*.b" for 1.
std::string without_numbers(const std::string& name, int kept) {
  std::string made;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    const bool number =
        !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
    made += (begin == 0 ? "" : ".") + (number && kept-- <= 0 ? std::string("*") : word);
    begin = end + 1;
  }
  return made;
}

// "base_model.model.<module>.lora_A.weight" -> "<module>"
std::string module_of(const std::string& tensor, size_t ending) {
  return tensor.substr(kAdapterPrefix.size(), tensor.size() - kAdapterPrefix.size() - ending);
}

// Returns the name of the module in the model, which may have "model." before it.
std::string name_in_model(const ParamStore& params, const std::string& module,
                          const std::string& file) {
  for (const std::string& front : {std::string(), std::string("model.")}) {
    if (params.has(front + module + ".weight")) return front + module;
  }
  fail(Code::not_found, "{}: the model has no matrix {}", file, module);
}

// Returns the name of a copied tensor in the model.
std::string copied_name(const ParamStore& params, const std::string& tensor,
                        const std::string& file) {
  const std::string name = tensor.substr(kAdapterPrefix.size());
  for (const std::string& front : {std::string(), std::string("model.")}) {
    if (params.has(front + name)) return front + name;
  }
  fail(Code::not_found, "{}: the model has no tensor {}", file, name);
}

void expect_matrix(const ckpt::TensorInfo& info, const std::string& tensor, const Shape& expected,
                   const std::string& file) {
  if (info.shape != expected) {
    fail_with_hint("r and rank_pattern of adapter_config.json are the ranks of the matrices",
                   Code::invalid_argument, "{}: tensor {} has shape {}, expected {}", file, tensor,
                   info.shape.text(), expected.text());
  }
  if (!info.dtype || !is_float(*info.dtype)) {
    fail(Code::invalid_argument, "{}: tensor {} has type {}, expected a float type", file, tensor,
         info.type);
  }
}

} // namespace

// An ending of the names of tensors. Two endings of magnitudes are in use.
struct AdapterFile::Ending {
  std::string_view text;
  std::string Pair::*place;
};

const AdapterFile::Ending AdapterFile::kEndings[] = {
    {kDown, &Pair::down},
    {kUp, &Pair::up},
    {kMagnitude, &Pair::magnitude},
    {".lora_magnitude_vector.weight", &Pair::magnitude}};

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

// "base_model.model.lm_head.weight", when modules_to_save names lm_head
bool AdapterFile::is_copy(const std::string& tensor) const {
  if (!tensor.starts_with(kAdapterPrefix)) return false;
  const std::string module = tensor.substr(0, tensor.rfind('.'));
  return std::ranges::any_of(config_.settings().modules_to_save,
                             [&](const std::string& word) { return module.ends_with(word); });
}

void AdapterFile::pair_tensors() {
  for (const auto& entry : tensors_->tensors()) {
    const std::string& tensor = entry.first;
    if (is_copy(tensor)) {
      copies_.push_back(tensor);
      continue;
    }
    const Ending* ending = std::ranges::find_if(
        kEndings, [&](const Ending& one) { return tensor.ends_with(one.text); });
    const bool is_known = ending != std::end(kEndings) && tensor.starts_with(kAdapterPrefix);
    if (!is_known || (ending->place == &Pair::magnitude && !config_.settings().has_magnitude))
      fail(Code::unimplemented, "{}: tensor {} is not a matrix of LoRA", tensors_->name(), tensor);
    pairs_[module_of(tensor, ending->text.size())].*(ending->place) = tensor;
  }
}

void AdapterFile::check_pairs() const {
  const auto place = [&](const std::string& tensor) { return tensors_->info(tensor).begin; };
  const std::string* half = nullptr; // the first of the file
  for (const auto& [module, pair] : pairs_) {
    if (!pair.down.empty() && !pair.up.empty()) {
      if (!config_.settings().has_magnitude || !pair.magnitude.empty()) continue;
      fail_with_hint("the file was cut or changed: save the adapter again", Code::data_loss,
                     "{}: {} has no lora_magnitude_vector, and {} says use_dora", tensors_->name(),
                     module, kAdapterConfig);
    }
    if (pair.down.empty() && pair.up.empty()) {
      fail_with_hint("the file was cut or changed: save the adapter again", Code::data_loss,
                     "{}: {} has a lora_magnitude_vector and no lora_A and lora_B",
                     tensors_->name(), module);
    }
    const std::string& own = pair.down.empty() ? pair.up : pair.down;
    if (half == nullptr || place(own) < place(*half)) half = &own;
  }
  if (half != nullptr) {
    const bool down = half->ends_with(kDown);
    fail_with_hint("the file was cut or changed: save the adapter again", Code::data_loss,
                   "{}: {} has a lora_{} and no lora_{}", tensors_->name(),
                   module_of(*half, kDown.size()), down ? "A" : "B", down ? "B" : "A");
  }
  for (const auto& [module, pair] : pairs_) {
    if (!config_.targets().has(module)) {
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

int64_t AdapterFile::loaded_bytes() const {
  int64_t count = 0;
  for (const auto& [name, info] : tensors_->tensors()) count += info.shape.count();
  return count * dtype_size(DType::f32);
}

// Warns of modules that the config chooses and no layer of the file has. `kinds` lists the modules
// that the file has, such as "model.layers.*.mlp.up_proj".
void AdapterFile::warn_of_absent(const Model& model, const std::set<std::string>& kinds) const {
  if (!config_.targets().given()) return;
  std::set<std::string> warned = kinds;
  for (const ParamStore::Physical& entry : model.params().physical()) {
    const ParamSpec& spec = entry.spec;
    if (spec.part != kBasePart || entry.scale_of >= 0) continue;
    if (spec.element.rank() < 2) continue; // norms and biases
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (const ParamPiece& piece : spec.pieces) {
        const std::string name = spec.logical_name(piece, layer);
        if (!name.ends_with(kWeight)) continue;
        const std::string module = module_of_weight(name), kind = without_numbers(module, 0);
        if (!config_.targets().has(spec, module) || !warned.insert(kind).second) continue;
        log(LogLevel::warn, "{}: target_modules names {}, and no layer of it has matrices",
            tensors_->name(), kind);
      }
    }
  }
}

void AdapterFile::add_to(Model& model, const std::string& name, Task* task,
                         const Bytes& others) const {
  const int64_t total = others.before + bytes() + others.after;
  int64_t done = others.before;
  std::map<std::string, std::string> in_file; // names in the file, by names in the model
  std::set<std::string> kinds, modules;
  for (const auto& [module, pair] : pairs_) {
    const std::string own = name_in_model(model.params(), module, tensors_->name());
    kinds.insert(without_numbers(own, 0));
    modules.insert(without_numbers(own, 1)); // all experts of a layer
    if (!in_file.emplace(own + std::string(kDown), pair.down).second)
      fail(Code::data_loss, "{}: {} and model.{} are one module", tensors_->name(), module, module);
    in_file.emplace(own + std::string(kUp), pair.up);
    if (!pair.magnitude.empty()) in_file.emplace(own + std::string(kMagnitude), pair.magnitude);
  }
  AdapterSettings settings = config_.settings();
  settings.modules_to_save.clear();
  for (const std::string& tensor : copies_) {
    const std::string name = copied_name(model.params(), tensor, tensors_->name());
    in_file.emplace(name, tensor);
    settings.modules_to_save.push_back(name.substr(0, name.rfind('.')));
  }
  warn_of_absent(model, kinds);
  AdapterOptions options;
  options.name = name;
  options.settings = std::move(settings);
  options.targets = AdapterTargets(std::vector<std::string>(modules.begin(), modules.end()));
  const bool checks = model.params().checks();
  const auto read = [&](const std::string& name, const Shape& whole, const Box& box) {
    const auto found = in_file.find(name);
    if (found == in_file.end()) return Tensor(); // an expert that the file leaves out
    const ckpt::TensorInfo& info = tensors_->info(found->second);
    expect_matrix(info, found->second, whole, tensors_->name());
    Tensor values = tensors_->part_copy(found->second, box, task);
    if (checks) check_finite(name, values);
    done += info.end - info.begin;
    if (task != nullptr) task->set_progress(std::min(done, total), total);
    return values;
  };
  add_adapter(model, options, read, task);
  if (const std::optional<PartOrigin> origin = origin_at(folder_))
    model.set_origin_of(adapter_part(name), *origin);
}

namespace {

std::string use_of(const ModelConfig& config) {
  return fmt::format("attention {}, shift {} and mask token {}", attention_name(config.attention),
                     config.shift, config.mask_token_id);
}

} // namespace

void warn_of_other_use(const Model& model, const std::string& folder) {
  ckpt::ModelPlace place;
  read_use(folder, place);
  if (!place.use) return;
  const std::string trained = use_of(config_from_text(place.use->config, place.use->where));
  const std::string now = use_of(model.config_now());
  if (trained == now) return;
  log(LogLevel::warn,
      "{}: the adapter was trained with {}, and the model has {}: load the base with option "
      "adapter, which takes them from there, or set attention, shift and mask_token of the model",
      place.use->where, trained, now);
}

void load_adapter(Model& model, const std::string& name, const std::string& folder, Task* task) {
  const store::TransferTask transfers(task);
  warn_of_other_use(model, folder);
  AdapterFile(folder).add_to(model, name, task, {});
}

} // namespace dllm::model
