#include "train/checkpoint/checkpoint_model.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/model_place.h"
#include "ckpt/safetensors/safetensors.h"
#include "hub/cache/cache.h"
#include "model/adapters/adapter_config.h"
#include "model/adapters/adapter_save.h"
#include "model/config.h"
#include "model/params/stack_part.h"
#include "train/checkpoint/checkpoint_record.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

namespace dllm::train {
namespace {

constexpr const char* kBaseFolder = "model";

// Returns the folder of a part: "adapter:math", the second part -> "part1_adapter-math".
std::string folder_of(const std::string& part, size_t index) {
  if (part == model::kBasePart) return kBaseFolder;
  std::string name = part;
  std::ranges::replace(name, ':', '-');
  return fmt::format("part{}_{}", index, name);
}

std::vector<std::string> formats_of(const model::Model& model, const std::string& part) {
  std::set<std::string> formats;
  for (const model::ParamStore::Physical& entry : model.params().physical()) {
    if (entry.spec.part == part && entry.scale_of < 0) formats.insert(entry.format->name);
  }
  return {formats.begin(), formats.end()};
}

// Returns the networks by name, then the adapters as they are: their products are added in order.
std::vector<std::string> in_order(std::vector<std::string> parts) {
  const auto adapters =
      std::stable_partition(parts.begin(), parts.end(), [](const std::string& name) {
        return !name.starts_with(model::kAdapterPart);
      });
  std::sort(parts.begin(), adapters);
  return parts;
}

bool same_bytes(const Tensor& x, const Tensor& y) {
  return x.byte_size() == y.byte_size() &&
         std::memcmp(x.bytes(), y.bytes(), static_cast<size_t>(x.byte_size())) == 0;
}

// The config of a base that is stored by reference: attention, shift and mask token of the run.
model::ModelConfig saved_config(const Json& config) {
  try {
    return model::config_from_json(config, "trainer.json");
  } catch (const Error& error) {
    throw Error(Code::data_loss, error.text(), error.hint());
  }
}

// Reads the config. A config that cannot be read means a damaged checkpoint, not a mistake of the
// caller.
model::ModelConfig saved_config(const Source& folder) {
  try {
    return model::read_config(folder);
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument) throw;
    throw Error(Code::data_loss, error.text(), error.hint());
  }
}

} // namespace

StoredModel::StoredModel(const model::Model& model, const model::Selection& trained,
                         model::SnapshotMode mode, model::WriterShares& shares, const Task* task,
                         CopyPool* pool) {
  const std::vector<model::ParamStore::Physical>& all = model.params().physical();
  for (const std::string& name : model.parts().names()) {
    Stored& part = parts_.emplace_back();
    part.name = name;
    part.is_adapter = model.parts().find(name)->kind == model::PartKind::adapter;
    part.formats = formats_of(model, name);
    part.is_trained = std::ranges::any_of(
        all, [&](const auto& entry) { return entry.spec.part == name && trained.trains(entry); });
    if (!part.is_trained) part.origin = model.origin_of(name);
    if (part.origin) {
      if (part.is_adapter) continue;
      const bool is_base = name == model::kBasePart;
      part.config =
          model::config_to_json(is_base ? model.config_now() : model.parts().find(name)->config);
      if (is_base && model.engine().process() == 0) part.side_files = model.side_files();
      for (const auto& entry : all) {
        if (entry.spec.part == name && entry.scale_of < 0)
          part.format_of[entry.spec.name] = entry.format->name;
      }
      continue;
    }
    part.folder = folder_of(name, parts_.size() - 1);
    if (part.is_adapter) part.use = model::adapter_use(model);
    part.snapshot.emplace(model, name, mode, shares, task, pool);
  }
}

Json StoredModel::list() const {
  Json list = Json::array();
  for (const Stored& part : parts_) {
    if (part.snapshot) {
      list.push_back({{"name", part.name},
                      {"kind", part.kind()},
                      {"stored", "value"},
                      {"folder", part.folder},
                      {"trained", part.is_trained}});
    } else {
      list.push_back({{"name", part.name},
                      {"kind", part.kind()},
                      {"stored", "reference"},
                      {"address", part.origin->address},
                      {"digest", part.origin->digest},
                      {"new_mask", part.origin->has_new_mask},
                      {"formats", part.formats},
                      {"format_of", part.format_of},
                      {"config", part.config}});
      if (const auto hub = hub::name_of_snapshot(part.origin->address))
        list.back()["hub"] = hub::text_of(*hub);
    }
  }
  return list;
}

std::vector<std::string> StoredModel::write(const std::string& folder, Task* task) {
  Options save(model::save_schema());
  save.set_str("dtype", "f32"); // the masters, bit for bit
  const std::string base = parts_.front().origin ? parts_.front().origin->address : "";
  std::vector<std::string> names;
  for (Stored& part : parts_) {
    if (!part.side_files.empty()) {
      const std::string tokenizer = join_path(folder, ckpt::kTokenizerFolder);
      make_directories(tokenizer);
      for (const std::string& file : model::write_side_files(part.side_files, tokenizer))
        names.push_back(join_path(ckpt::kTokenizerFolder, file));
    }
    if (!part.snapshot) continue;
    const std::string place = join_path(folder, part.folder);
    make_directories(place);
    const std::vector<std::string> files =
        part.is_adapter ? model::write_adapter_files(*part.snapshot, place, base, part.use, task)
                        : model::write_model_files(*part.snapshot, place, save, task);
    for (const std::string& file : files) names.push_back(part.folder + "/" + file);
  }
  return names;
}

struct SavedModel::Opened {
  std::string name, prefix; // prefix: of tensors in the file
  std::unique_ptr<Source> folder;
  std::unique_ptr<ckpt::WeightFiles> files;
};

SavedModel::SavedModel(const Json& trainer, const std::string& checkpoint,
                       const model::Model& model)
    : model_(model) {
  const Json whole = {{{"name", model::kBasePart}, {"stored", "value"}, {"folder", kBaseFolder}}};
  const Json list = trainer.value("parts", whole);
  std::vector<std::string> names;
  for (const Json& row : list) {
    names.push_back(member<std::string>(row, "name"));
    if (member<std::string>(row, "stored") == "value")
      open(row, checkpoint);
    else
      check_reference(row);
  }
  const std::vector<std::string> own = model.parts().names();
  if (in_order(names) != in_order(own)) {
    fail_differs("the parts", fmt::format("{}", fmt::join(names, ", ")),
                 fmt::format("{}", fmt::join(own, ", ")));
  }
  for (const auto& part : parts_) check_tensors(*part);
}

SavedModel::~SavedModel() = default;
SavedModel::SavedModel(SavedModel&&) noexcept = default;

void SavedModel::open(const Json& row, const std::string& checkpoint) {
  auto part = std::make_unique<Opened>();
  part->name = member<std::string>(row, "name");
  const auto folder = member<std::string>(row, "folder");
  if (!ckpt::is_safe_name(folder))
    fail(Code::data_loss, "trainer.json: '{}' is not the name of a folder", folder);
  part->folder = open_source(join_path(checkpoint, folder));
  const bool is_adapter = row.value("kind", Json()) == "adapter";
  part->prefix = is_adapter ? model::kAdapterPrefix : std::string_view();
  part->files =
      std::make_unique<ckpt::WeightFiles>(*part->folder, is_adapter ? "adapter_model" : "model");
  if (part->name == model::kBasePart) config_ = saved_config(*part->folder);
  parts_.push_back(std::move(part));
}

void SavedModel::check_reference(const Json& row) {
  const auto name = member<std::string>(row, "name"), address = member<std::string>(row, "address"),
             digest = member<std::string>(row, "digest");
  if (!model_.parts().has(name)) return; // the lists of parts differ, which has its own error
  const std::string hint =
      "load " + address + " as it was, in the same formats, and make the trainer again";
  const std::optional<model::PartOrigin> own = model_.origin_of(name);
  if (!own || !own->has_digest(digest) || own->has_new_mask != row.value("new_mask", false)) {
    fail_with_hint(hint, Code::failed_precondition,
                   "the checkpoint refers to {} for part {}, but this model has other numbers in "
                   "it: digest {}, and {} in the checkpoint",
                   address, name, own ? own->digest : "unknown", digest);
  }
  const std::vector<std::string> here = formats_of(model_, name);
  if (row.value("formats", Json(here)) != Json(here)) {
    fail_with_hint(hint, Code::failed_precondition,
                   "the checkpoint has part {} in other formats than this model ({})", name,
                   fmt::join(here, ", "));
  }
  if (name == model::kBasePart) config_ = saved_config(member<Json>(row, "config"));
}

void SavedModel::check_tensors(const Opened& part) const {
  for (const std::string& name : model_.params().names(part.name)) {
    const std::string saved = part.prefix + model::split_name(name).second;
    if (!part.files->has(saved)) fail_differs("no tensor", name, "has it");
    const Shape &there = part.files->info(saved).shape, here = model_.params().shape(name);
    if (there != here) fail_differs(name, there.text(), here.text());
  }
}

const SavedModel::Opened* SavedModel::find(const std::string& part) const {
  const auto found =
      std::ranges::find_if(parts_, [&](const auto& opened) { return opened->name == part; });
  return found == parts_.end() ? nullptr : found->get();
}

std::vector<std::pair<size_t, graph::BufferRef>>
SavedModel::read(const std::vector<size_t>& trained, const Task* task) const {
  graph::Engine& engine = model_.engine();
  std::vector<std::pair<size_t, graph::BufferRef>> made;
  const std::vector<model::ParamStore::Physical>& all = model_.params().physical();
  for (size_t index = 0; index < all.size(); ++index) {
    const model::ParamStore::Physical& entry = all[index];
    const bool is_trained = std::ranges::binary_search(trained, index);
    const Opened* part = find(entry.spec.part);
    if (part == nullptr) continue;
    if (!is_trained && (entry.scale_of >= 0 || entry.is_quantized())) continue;
    check_task(task);
    const auto read = [&](const std::string& name, const Box& box) {
      return part->files->part_copy(part->prefix + model::split_name(name).second, box, task);
    };
    if (is_trained) {
      made.emplace_back(index, model::upload_joined(engine, entry.spec, read, task));
      continue;
    }
    // Converts to the type of this model.
    const Tensor saved = model::joined_part(engine, entry.spec, read, task).to(entry.dtype, task);
    const Tensor own =
        engine.processes() == 1 ? entry.buffer->read(task) : entry.buffer->read_part(task);
    if (!same_bytes(saved, own))
      made.emplace_back(index, model::upload_own(engine, saved, entry.spec));
  }
  return made;
}

void SavedModel::check_quantized(const Task* task) const {
  const model::ParamStore& store = model_.params();
  const std::vector<model::ParamStore::Physical>& all = store.physical();
  for (size_t i = 0; i < all.size(); ++i) {
    const model::ParamStore::Physical& entry = all[i];
    const Opened* part = find(entry.spec.part);
    if (part == nullptr || entry.scale_of >= 0 || !entry.is_quantized()) continue;
    check_task(task);
    const auto read = [&](const std::string& name, size_t) {
      return part->files->tensor_copy(part->prefix + model::split_name(name).second, task);
    };
    const Tensor saved = model::join_logical(entry.spec, DType::f32, read, task);
    if (same_bytes(saved, store.dequantized(i, all, task))) continue;
    fail_with_hint("load the model that the run began with, or the model folder of the checkpoint",
                   Code::failed_precondition,
                   "{} is frozen, stored as {}, and holds other numbers than the checkpoint",
                   entry.name, entry.format->name);
  }
}

} // namespace dllm::train
