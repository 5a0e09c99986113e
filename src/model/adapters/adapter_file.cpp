// Reads adapters as PEFT saves them: adapter_config.json, and adapter_model.safetensors with the
// tensors of a kind, such as "base_model.model.<module>.lora_A.weight" (r, in) and
// "...lora_B.weight" (out, r).

#include "model/adapters/adapter_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/objects.h"
#include "model/adapters/adapter_choice.h"
#include "model/adapters/adapter_save.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/config.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

constexpr const char *kAdapterConfig = "adapter_config.json",
                     *kAdapterTensors = "adapter_model.safetensors";
constexpr std::string_view kWeight = ".weight";
constexpr const char* kUntiedHint =
    "merge the adapter in PEFT (merge_and_unload), save the model and load that one, or train the "
    "adapter with ensure_weight_tying";
constexpr const char* kDamaged = "the file was cut or changed: save the adapter again";

// Returns the tensor with this ending, and its ending in the name; null: the kind has none.
std::pair<const AdapterTensor*, std::string_view> tensor_of(const AdapterKind& kind,
                                                            const std::string& name) {
  for (const AdapterTensor& tensor : kind.tensors) {
    for (const std::string_view ending : {tensor.ending, tensor.other_ending}) {
      if (!ending.empty() && name.ends_with(ending)) return {&tensor, ending};
    }
  }
  return {nullptr, {}};
}

// ".lora_A.weight" -> "lora_A"
std::string short_name(const AdapterTensor& tensor) {
  const std::string_view name = tensor.ending.substr(1);
  return std::string(name.substr(0, name.find(kWeight)));
}

// Returns the title of the kind whose config has the type of this kind, and no flag.
const char* title_of_type(const AdapterKind& kind) {
  for (const AdapterKind* other : adapter_kinds()) {
    const bool is_of_type = std::string_view(other->peft.type) == kind.peft.type;
    if (is_of_type && other->peft.flag == nullptr) return other->title;
  }
  return kind.title;
}

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

std::string table_name(const ParamStore& params) {
  for (const ParamStore::Physical& entry : params.physical()) {
    const ParamSpec& spec = entry.spec;
    if (spec.part == kBasePart && spec.name == "embedding" && entry.scale_of < 0)
      return spec.logical_name(spec.pieces.front(), 0);
  }
  return {};
}

void expect_matrix(const ckpt::TensorInfo& info, const std::string& tensor, const Shape& expected,
                   const AdapterKind& kind, const std::string& file) {
  if (info.shape != expected) {
    fail_with_hint(kind.peft.shape_hint, Code::invalid_argument,
                   "{}: tensor {} has shape {}, expected {}", file, tensor, info.shape.text(),
                   expected.text());
  }
  if (!info.dtype || !is_float(*info.dtype)) {
    fail(Code::invalid_argument, "{}: tensor {} has type {}, expected a float type", file, tensor,
         info.type);
  }
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
  find_modules();
  check_modules();
}

// "base_model.model.lm_head.weight", when modules_to_save names lm_head
bool AdapterFile::is_copy(const std::string& tensor) const {
  if (!tensor.starts_with(kAdapterPrefix)) return false;
  const std::string module = tensor.substr(0, tensor.rfind('.'));
  return std::ranges::any_of(config_.settings().modules_to_save,
                             [&](const std::string& word) { return module.ends_with(word); });
}

void AdapterFile::fail_other(const std::string& tensor) const {
  fail(Code::unimplemented, "{}: tensor {} is not a matrix of {}", tensors_->name(), tensor,
       title_of_type(config_.kind()));
}

void AdapterFile::find_modules() {
  const AdapterKind& kind = config_.kind();
  for (const auto& entry : tensors_->tensors()) {
    const std::string& name = entry.first;
    if (is_copy(name)) {
      copies_.push_back(name);
      continue;
    }
    const auto [tensor, ending] = tensor_of(kind, name);
    if (tensor == nullptr || !name.starts_with(kAdapterPrefix)) {
      // PEFT writes a head that it ties under its own name, which modules_to_save need not have.
      if (!config_.ties_weights() || !tied_copy_.empty()) fail_other(name);
      tied_copy_ = name;
      continue;
    }
    modules_[module_of(name, ending.size())][tensor->ending] = name;
  }
}

// Fails for a module without a tensor of its kind. `half` becomes the first tensor of the file
// whose module lacks another one.
void AdapterFile::check_module(const std::string& module, const Module& own,
                               const std::string*& half) const {
  const AdapterKind& kind = config_.kind();
  std::vector<std::string> missing; // of the type, without those of a flag
  const std::string *first = nullptr, *of_flag = nullptr;
  for (const AdapterTensor& tensor : kind.tensors) {
    const auto found = own.find(tensor.ending);
    if (found == own.end() && !tensor.is_of_flag) missing.push_back(short_name(tensor));
    if (found == own.end()) continue;
    const std::string*& place = tensor.is_of_flag ? of_flag : first;
    if (place == nullptr) place = &found->second;
  }
  if (missing.empty()) {
    for (const AdapterTensor& tensor : kind.tensors) {
      if (own.contains(tensor.ending)) continue;
      fail_with_hint(kDamaged, Code::data_loss, "{}: {} has no {}, and {} says {}",
                     tensors_->name(), module, short_name(tensor), kAdapterConfig, kind.peft.flag);
    }
    return;
  }
  if (first == nullptr) {
    fail_with_hint(kDamaged, Code::data_loss, "{}: {} has a {} and no {}", tensors_->name(), module,
                   short_name(*tensor_of(kind, *of_flag).first), fmt::join(missing, " and "));
  }
  const auto place = [&](const std::string& name) { return tensors_->info(name).begin; };
  if (half == nullptr || place(*first) < place(*half)) half = first;
}

void AdapterFile::check_modules() const {
  const AdapterKind& kind = config_.kind();
  const std::string* half = nullptr; // the first of the file
  for (const auto& [module, own] : modules_) check_module(module, own, half);
  if (half != nullptr) {
    const auto [tensor, ending] = tensor_of(kind, *half);
    const std::string module = module_of(*half, ending.size());
    std::vector<std::string> missing;
    for (const AdapterTensor& other : kind.tensors) {
      if (!other.is_of_flag && !modules_.at(module).contains(other.ending))
        missing.push_back(short_name(other));
    }
    fail_with_hint(kDamaged, Code::data_loss, "{}: {} has a {} and no {}", tensors_->name(), module,
                   short_name(*tensor), fmt::join(missing, " and "));
  }
  for (const auto& [module, own] : modules_) {
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

bool AdapterFile::has_same_numbers(const std::string& a, const std::string& b,
                                   const Task* task) const {
  constexpr int64_t kNumbers = int64_t{1} << 20; // that are compared at one time
  const Shape& shape = tensors_->info(a).shape;
  if (tensors_->info(b).shape != shape) return false;
  const int64_t rows = shape[0], step = std::max<int64_t>(1, kNumbers / shape[1]);
  for (int64_t row = 0; row < rows; row += step) {
    check_task(task);
    const Box box{{row, 0}, {std::min(step, rows - row), shape[1]}};
    const auto part = [&](const std::string& name) {
      return tensors_->part_copy(name, box, task).to(DType::f32);
    };
    const Tensor left = part(a), right = part(b);
    if (std::memcmp(left.bytes(), right.bytes(), static_cast<size_t>(left.byte_size())) != 0)
      return false;
  }
  return true;
}

// PEFT without ensure_weight_tying makes copies of their own for a table and a head that the base
// has as one matrix. Such an adapter has a place here only while both copies are equal.
std::map<std::string, std::string> AdapterFile::copies_in(const Model& model,
                                                          const Task* task) const {
  const ParamStore& params = model.params();
  const std::string head = tied_head_of(model.config()) + std::string(kWeight),
                    table = table_name(params);
  std::map<std::string, std::string> copies;
  std::string of_head, of_table;
  if (!tied_copy_.empty()) {
    if (tied_copy_ != std::string(kAdapterPrefix) + head) fail_other(tied_copy_);
    of_head = tied_copy_;
  }
  for (const std::string& tensor : copies_) {
    if (tensor == std::string(kAdapterPrefix) + head) {
      of_head = tensor;
      continue;
    }
    const std::string name = copied_name(params, tensor, tensors_->name());
    if (name == table) of_table = tensor;
    copies.emplace(name, tensor);
  }
  if (!model.config().tie_embeddings || (of_head.empty() && of_table.empty())) return copies;
  const bool is_one = of_head.empty() || of_table.empty()
                          ? of_head.empty() && config_.ties_weights()
                          : has_same_numbers(of_head, of_table, task);
  if (is_one) return copies;
  fail_with_hint(kUntiedHint, Code::unimplemented,
                 "{}: the head of the base is its embedding, and {}", tensors_->name(),
                 of_head.empty()    ? "the adapter has a copy of the embedding alone"
                 : of_table.empty() ? "the adapter has a copy of the head alone"
                                    : "the adapter's copies of both differ");
}

void AdapterFile::add_to(Model& model, const std::string& name, Task* task,
                         const Bytes& others) const {
  const int64_t total = others.before + bytes() + others.after;
  int64_t done = others.before;
  std::map<std::string, std::string> in_file; // names in the file, by names in the model
  std::set<std::string> kinds, modules;
  for (const auto& [module, tensors] : modules_) {
    const std::string own = name_in_model(model.params(), module, tensors_->name());
    kinds.insert(without_numbers(own, 0));
    modules.insert(without_numbers(own, 1)); // all experts of a layer
    for (const auto& [ending, tensor] : tensors) {
      if (!in_file.emplace(own + std::string(ending), tensor).second) {
        fail(Code::data_loss, "{}: {} and model.{} are one module", tensors_->name(), module,
             module);
      }
    }
  }
  AdapterSettings settings = config_.settings();
  settings.modules_to_save.clear();
  for (const auto& [name, tensor] : copies_in(model, task)) {
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
    expect_matrix(info, found->second, whole, config_.kind(), tensors_->name());
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

void warn_of_other_base(const Model& model, const std::string& folder) {
  const std::optional<AdapterBase> trained = read_base(folder), now = adapter_base(model);
  if (!trained || !now) return;
  const auto is_float = [](const std::string& format) {
    return format == "f32" || format == "bf16" || format == "f16";
  };
  const bool same_format =
      trained->format == now->format || (is_float(trained->format) && is_float(now->format));
  if (same_format && trained->digest == now->digest) return;
  log(LogLevel::warn,
      "{}: the adapter was trained over {}, and the base is {} now: the results of the adapter "
      "move with the numbers of its base, so compare the loss of both",
      join_path(folder, kUseFile), trained->text(), now->text());
}

void warn_of_other_use(const Model& model, const std::string& folder) {
  warn_of_other_base(model, folder);
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
