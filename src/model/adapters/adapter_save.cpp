#include "model/adapters/adapter_save.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "hub/cache/cache.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_config.h"
#include "model/adapters/kinds/adapter_kinds.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

bool has_key(const std::vector<AdapterKey>& keys, std::string_view name) {
  return std::ranges::any_of(keys, [&](const AdapterKey& key) { return key.name == name; });
}

Json config_of(const ModelSnapshot& snapshot, const std::string& base) {
  const AdapterSettings& settings = snapshot.part().settings;
  const PeftLayout& peft = find_adapter_kind(settings.kind).peft;
  Json config = {{"peft_type", peft.type},
                 {"task_type", nullptr},
                 {"base_model_name_or_path", base.empty() ? Json(nullptr) : Json(base)},
                 {"inference_mode", true}};
  if (const auto hub = hub::name_of_snapshot(base)) {
    config["base_model_name_or_path"] = hub->repo;
    config["revision"] = hub->revision;
  }
  peft.write(settings, config);
  if (peft.flag != nullptr) config[peft.flag] = true;
  config["fan_in_fan_out"] = false;
  std::vector<std::string> modules = settings.modules_to_save;
  if (!settings.tied_head.empty()) {
    modules.push_back(settings.tied_head);
    const std::vector<AdapterKey> keys = adapter_keys(find_adapter_kind(settings.kind));
    if (has_key(keys, kTiesWeights)) config[kTiesWeights] = true;
  }
  config["modules_to_save"] = modules.empty() ? Json(nullptr) : Json(modules);
  config["target_modules"] = settings.targets;
  return config;
}

// Takes the tensors of an adapter. A tied head has the numbers of the embedding, which PEFT
// writes and reads under both names.
class TiedHead {
public:
  explicit TiedHead(ModelSnapshot& snapshot) : snapshot_(snapshot) {
    const std::string& head = snapshot.part().settings.tied_head;
    if (head.empty()) return;
    name_ = head + ".weight";
    embedding_ = snapshot.name_in("embedding");
  }
  const std::string& name() const { return name_; } // "lm_head.weight"; "": there is none
  const std::string& embedding() const { return embedding_; }
  Tensor take(const std::string& name, const Task* task) {
    if (name_.empty() || (name != name_ && name != embedding_))
      return snapshot_.take(name, task).to(DType::f32, task);
    if (kept_.defined()) return std::exchange(kept_, Tensor()); // the second of both
    return kept_ = snapshot_.take(embedding_, task).to(DType::f32, task);
  }

private:
  ModelSnapshot& snapshot_;
  std::string name_, embedding_;
  Tensor kept_;
};

// Returns the names of the files.
std::vector<std::string> write_tensors(ModelSnapshot& snapshot, const std::string& folder,
                                       Task* task) {
  std::vector<ckpt::TensorSpec> specs;
  int64_t total = 0, done = 0;
  const auto list = [&](const std::string& name, const std::string& numbers) {
    specs.push_back({std::string(kAdapterPrefix) + name, DType::f32, snapshot.shape(numbers),
                     snapshot.writer(numbers)});
    if (specs.back().writer == snapshot.process())
      total += specs.back().shape.count() * dtype_size(DType::f32);
  };
  TiedHead head(snapshot);
  for (const std::string& name : snapshot.names()) list(name, name);
  if (!head.name().empty()) list(head.name(), head.embedding());
  ckpt::WeightWriter writer(folder, "adapter_model", specs, 0, {{"format", "pt"}},
                            snapshot.process());
  for (const ckpt::TensorSpec& spec : writer.order()) {
    check_task(task);
    const Tensor tensor = head.take(spec.name.substr(kAdapterPrefix.size()), task);
    writer.write(spec.name, tensor, task);
    done += tensor.byte_size();
    if (task != nullptr) task->set_progress(done, total);
  }
  writer.close();
  return writer.files();
}

void save_snapshot(ModelSnapshot& snapshot, const std::string& path, const std::string& base,
                   const Json& use, Task* task) {
  FolderSave place(path, false, task, FolderKind::adapter);
  write_tensors(snapshot, place.partial(), task);
  write_file_atomic(join_path(place.partial(), kUseFile), use.dump(2) + "\n");
  place.move_into_place(config_of(snapshot, base).dump(2) + "\n");
}

} // namespace

std::string AdapterBase::text() const {
  constexpr size_t kShown = 14; // of 66 characters
  return fmt::format("{} in {}, digest {}", address, format, digest.substr(0, kShown));
}

std::optional<AdapterBase> adapter_base(const Model& model) {
  const std::optional<PartOrigin> origin = model.origin_of(kBasePart);
  if (!origin) return std::nullopt;
  std::map<std::string, int64_t> numbers; // by format
  for (const ParamStore::Physical& entry : model.params().physical()) {
    const ParamSpec& spec = entry.spec;
    if (spec.part == kBasePart && entry.scale_of < 0 && spec.element.rank() > 1)
      numbers[entry.format->name] += spec.shape().count();
  }
  const auto most = std::ranges::max_element(
      numbers, {}, [](const std::pair<const std::string, int64_t>& row) { return row.second; });
  return AdapterBase{origin->address, origin->digest, most == numbers.end() ? "" : most->first};
}

Json adapter_use(const Model& model) {
  const std::optional<PartOrigin> origin = model.origin_of(kBasePart);
  Json use = {{"config", config_to_json(model.config_now())},
              {"new_mask", origin && origin->has_new_mask},
              {"objective", model.config_now().objective}};
  if (const std::optional<AdapterBase> base = adapter_base(model)) {
    use["base"] = {{"address", base->address}, {"digest", base->digest}, {"format", base->format}};
  }
  return use;
}

std::vector<std::string> write_adapter_files(ModelSnapshot& snapshot, const std::string& folder,
                                             const std::string& base, const Json& use, Task* task) {
  std::vector<std::string> names = write_tensors(snapshot, folder, task);
  if (snapshot.process() > 0) return names;
  write_file_atomic(join_path(folder, "adapter_config.json"),
                    config_of(snapshot, base).dump(2) + "\n");
  write_file_atomic(join_path(folder, kUseFile), use.dump(2) + "\n");
  names.insert(names.end(), {"adapter_config.json", kUseFile});
  return names;
}

namespace {

// Passes the content of kUseFile to `take`, when the folder has the file.
template <class Take> void with_use(const std::string& folder, const Take& take) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  const std::string where = join_path(folder, kUseFile);
  if (!file_exists(where)) return;
  const Json use = parse_json(read_text(where, kMostBytes), where);
  try {
    take(use, where);
  } catch (const nlohmann::json::exception& error) {
    fail(Code::data_loss, "{}: {}", where, error.what());
  }
}

} // namespace

void read_use(const std::string& folder, ckpt::ModelPlace& place) {
  with_use(folder, [&](const Json& use, const std::string& where) {
    place.use = {use.at("config").dump(), where, use.at("new_mask").get<bool>()};
    place.objective = use.at("objective").get<std::string>();
  });
}

std::optional<AdapterBase> read_base(const std::string& folder) {
  std::optional<AdapterBase> base;
  with_use(folder, [&](const Json& use, const std::string&) {
    if (!use.contains("base")) return;
    const Json& row = use.at("base");
    base = {row.at("address").get<std::string>(), row.at("digest").get<std::string>(),
            row.at("format").get<std::string>()};
  });
  return base;
}

void save_adapter(const Model& model, const std::string& name, const std::string& path,
                  Task* task) {
  check_task(task);
  const std::string part = find_adapter(model, name)->name;
  const std::optional<PartOrigin> origin = model.origin_of(kBasePart);
  const std::string base = origin ? origin->address : "";
  const Json use = adapter_use(model);
  WriterShares first(1);
  if (model.engine().processes() > 1) {
    ModelSnapshot snapshot(model, part, SnapshotMode::copied, first, task);
    graph::run_on_first(model.engine(), [&] { save_snapshot(snapshot, path, base, use, task); });
    return;
  }
  ModelSnapshot snapshot(model, part, SnapshotMode::keep_shared, first, task);
  save_snapshot(snapshot, path, base, use, task);
}

} // namespace dllm::model
