// Reads the weights of a model in one file or several, of safetensors or PyTorch.

#include "base/error.h"
#include "base/json.h"
#include "base/named_table.h"
#include "base/task.h"
#include "ckpt/box_reader.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/torch/torch_file.h"

#include <nlohmann/json.hpp>

namespace dllm::ckpt {

const TensorInfo& WeightFile::info(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  if (found != tensors_.end()) return found->second;
  fail_unnamed({"tensor", "in " + name_}, tensor, names_of(tensors_, kEntryName));
}

const TensorInfo& WeightFile::readable(std::string_view tensor) const {
  const TensorInfo& found = info(tensor);
  if (!found.dtype) {
    fail_with_hint("convert it to F32, F16 or BF16", Code::unimplemented,
                   "{}: tensor {} has the element type {}, which dllm does not read", name_, tensor,
                   found.type);
  }
  return found;
}

Tensor WeightFile::tensor_copy(std::string_view tensor, const Task* task) const {
  const TensorInfo& found = readable(tensor);
  Tensor made(*found.dtype, found.shape);
  tensor_to(tensor, made.mutable_bytes(), task);
  return made;
}

Tensor WeightFile::part_to(std::string_view tensor, const Box& box, std::byte* to,
                           const Task* task) const {
  const TensorInfo& found = readable(tensor);
  const int64_t unit = dtype_size(*found.dtype);
  read_box(*content_, found.begin, unit, found.shape, box, to, task);
  return Tensor(*found.dtype, box.shape,
                Bytes(to, static_cast<size_t>(box.shape.count() * unit), nullptr));
}

Tensor WeightFile::part_copy(std::string_view tensor, const Box& box, const Task* task) const {
  Tensor made(*readable(tensor).dtype, box.shape);
  part_to(tensor, box, made.mutable_bytes(), task);
  return made;
}

namespace {

constexpr std::string_view kSuffix = ".safetensors";

// Returns the only *.safetensors file of a source; "" if there is none or more than one.
std::string lone_file(const Source& source) {
  std::string found;
  for (const std::string& name : source.names()) {
    if (!std::string_view(name).ends_with(kSuffix)) continue;
    if (!found.empty()) return "";
    found = name;
  }
  return found;
}

[[noreturn]] void fail_no_weights(const Source& source, const std::string& base) {
  fail_with_hint(
      "a model folder holds model.safetensors or pytorch_model.bin, or an index and its shards",
      Code::not_found, "{} holds no {}.safetensors", source.describe(), base);
}

constexpr const char* kTorchFile = "pytorch_model.bin";
constexpr const char* kIndex = ".index.json";

// Returns the object {tensor: file} of an index.
Json weight_map(const Source& source, const std::string& name) {
  Json index = parse_json(source.open(name).text(), name);
  const auto map = index.find("weight_map");
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty())
    fail(Code::data_loss, "{}: weight_map is missing, empty or not an object", name);
  return *map;
}

// Fails with failed_precondition if a folder has a single file and an index of other files. Such a
// folder was written twice and holds two models.
void expect_one_model(const Source& source, const std::string& single) {
  const std::string index = single + kIndex;
  if (!source.has(index)) return;
  const Json map = weight_map(source, index);
  for (const auto& [tensor, file] : map.items()) {
    if (file == single) continue;
    fail_with_hint("remove the old weights: " + single + ", or the index and its files",
                   Code::failed_precondition,
                   "{} holds {} and {}, whose tensors are in other files", source.describe(),
                   single, index);
  }
}

// Returns the .bin file of a source that has no other file, or "". A folder may have .bin files
// that are not weights, such as training_args.bin.
std::string lone_torch_file(const Source& source) {
  const std::vector<std::string> names = source.names();
  return names.size() == 1 && names[0].ends_with(".bin") ? names[0] : "";
}

} // namespace

WeightFiles::WeightFiles(const Source& source, const std::string& base)
    : described_(source.describe()) {
  const std::string single = base + std::string(kSuffix);
  const std::string lone = lone_file(source);
  if (source.has(single)) {
    expect_one_model(source, single);
    add_file(source, single);
  } else if (source.has(single + kIndex)) {
    read_index(source, single + kIndex);
  } else if (!lone.empty()) {
    add_file(source, lone);
  } else {
    is_torch_ = true;
    find_torch_files(source, base);
  }
}

void WeightFiles::find_torch_files(const Source& source, const std::string& base) {
  const std::string index = std::string(kTorchFile) + kIndex;
  const std::string lone = lone_torch_file(source);
  if (source.has(kTorchFile)) {
    expect_one_model(source, kTorchFile);
    add_file(source, kTorchFile);
  } else if (source.has(index)) {
    read_index(source, index);
  } else if (!lone.empty()) {
    add_file(source, lone);
  } else {
    fail_no_weights(source, base);
  }
}

void WeightFiles::open_file(const Source& source, const std::string& name) {
  if (is_torch_)
    files_.push_back(std::make_unique<TorchFile>(source.content(name), name));
  else
    files_.push_back(std::make_unique<SafetensorsFile>(source.content(name), name));
}

void WeightFiles::add_file(const Source& source, const std::string& name) {
  open_file(source, name);
  for (const auto& entry : files_.back()->tensors()) where_.emplace(entry.first, files_.size() - 1);
}

// Reads an index, {"metadata": {...}, "weight_map": {tensor: file}}, and opens its files.
void WeightFiles::read_index(const Source& source, const std::string& name) {
  const Json map = weight_map(source, name);
  std::map<std::string, size_t> opened;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || !is_safe_name(file.get_ref<const std::string&>())) {
      fail(Code::data_loss, "{}: tensor {} is in {}, expected the name of a file of this folder",
           name, tensor, file.dump());
    }
    const auto& shard = file.get_ref<const std::string&>();
    const auto [entry, added] = opened.emplace(shard, files_.size());
    if (added) {
      if (!source.has(shard)) {
        fail_with_hint("is the download complete?", Code::not_found,
                       "{}: {} names the file {}, which does not exist", described_, name, shard);
      }
      open_file(source, shard);
    }
    if (!files_[entry->second]->has(tensor)) {
      fail(Code::data_loss, "{}: tensor {} should be in {}, which does not hold it", name, tensor,
           shard);
    }
    where_.emplace(tensor, entry->second);
  }
}

std::vector<std::string> WeightFiles::names() const {
  return names_of(where_, kEntryName);
}

const WeightFile& WeightFiles::file_of(std::string_view name) const {
  const auto found = where_.find(name);
  if (found != where_.end()) return *files_[found->second];
  fail_unnamed({"tensor", "in " + described_}, name, names());
}

const TensorInfo& WeightFiles::info(std::string_view name) const {
  return file_of(name).info(name);
}

Tensor WeightFiles::tensor(std::string_view name) const {
  return file_of(name).tensor(name);
}

} // namespace dllm::ckpt
