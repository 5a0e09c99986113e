#include "ckpt/weights_on_disk.h"

#include "base/error.h"
#include "base/files.h"
#include "base/named_table.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/part_names.h"
#include "ckpt/safetensors/safetensors.h"
#include "hub/cache/cache.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace dllm::ckpt {

// The interface to weights of either format.
class WeightsOnDisk::Content {
public:
  virtual ~Content() = default;
  virtual Json metadata() const = 0;
  virtual Json tensors() const = 0;
  virtual Tensor tensor(const std::string& name) const = 0;
};

namespace {

Json tensor_row(const std::string& name, const std::string& type, const Shape& shape,
                int64_t bytes) {
  return {{"name", name}, {"dtype", type}, {"shape", shape.dims()}, {"bytes", bytes}};
}

// Returns a metadata value as JSON; only the length of a list, which may be a vocabulary.
Json value_of(const GgufFile& file, const std::string& key, const GgufValue& value) {
  if (value.is_array) return "list of " + std::to_string(value.count);
  if (value.type == GgufType::text) return file.text(key);
  if (value.type == GgufType::boolean) return file.boolean(key);
  if (value.type == GgufType::f32 || value.type == GgufType::f64) return file.number(key);
  return file.integer(key);
}

Json metadata_of(const WeightFiles& files) {
  Json object = Json::object();
  for (const auto& [key, value] : files.metadata()) object[key] = value;
  return object;
}

void add_rows(Json& rows, const std::string& prefix, const WeightFiles& files) {
  for (const std::string& name : files.names()) {
    const TensorInfo& info = files.info(name);
    rows.push_back(tensor_row(prefix + name, info.type, info.shape, info.end - info.begin));
  }
}

} // namespace

class WeightsOnDisk::Files final : public Content {
public:
  explicit Files(const std::string& path) : files_(*open_source(path)) {}

  Json metadata() const override { return metadata_of(files_); }
  Json tensors() const override {
    Json rows = Json::array();
    add_rows(rows, "", files_);
    return rows;
  }
  Tensor tensor(const std::string& name) const override { return files_.tensor(name); }
  const char* format() const { return files_.format(); }

private:
  WeightFiles files_;
};

class WeightsOnDisk::Gguf final : public Content {
public:
  explicit Gguf(const Source& source) : file_(open_gguf(source, find_gguf(source))) {}

  Json metadata() const override {
    Json object = Json::object();
    for (const auto& [key, value] : file_->metadata()) object[key] = value_of(*file_, key, value);
    return object;
  }
  Json tensors() const override {
    Json rows = Json::array();
    for (const auto& [name, info] : file_->tensors()) {
      rows.push_back(tensor_row(name, info.type_name, info.shape, info.end - info.begin));
    }
    return rows;
  }
  Tensor tensor(const std::string& name) const override { return file_->tensor(name); }

private:
  std::shared_ptr<const GgufFile> file_;
};

// The parts that a checkpoint stores by value. Tensors of the base have the names of its files. A
// tensor of an adapter has the name of the adapter before such a name.
class WeightsOnDisk::Parts final : public Content {
public:
  explicit Parts(const ModelPlace& place) {
    if (!place.reference)
      parts_.emplace_back("", std::make_unique<WeightFiles>(*open_source(place.base)));
    for (const ModelPlace::Network& network : place.networks) {
      if (network.reference) continue;
      parts_.emplace_back(network.name + "/",
                          std::make_unique<WeightFiles>(*open_source(network.folder)));
    }
    for (const ModelPlace::Adapter& adapter : place.adapters) {
      if (adapter.is_reference()) continue;
      parts_.emplace_back(adapter.name + "/", std::make_unique<WeightFiles>(
                                                  *open_source(adapter.folder), "adapter_model"));
    }
  }

  Json metadata() const override {
    return parts_.empty() ? Json::object() : metadata_of(*parts_.front().second);
  }
  Json tensors() const override {
    Json rows = Json::array();
    for (const auto& [prefix, files] : parts_) add_rows(rows, prefix, *files);
    return rows;
  }
  Tensor tensor(const std::string& name) const override {
    for (const auto& [prefix, files] : parts_) {
      if (!prefix.empty() && name.starts_with(prefix))
        return files->tensor(name.substr(prefix.size()));
    }
    if (!parts_.empty() && parts_.front().first.empty()) return parts_.front().second->tensor(name);
    std::vector<std::string> known;
    for (const auto& [prefix, files] : parts_) {
      for (const std::string& own : files->names()) known.push_back(prefix + own);
    }
    fail_unnamed({"tensor", "in the checkpoint"}, name, known);
  }

private:
  std::vector<std::pair<std::string, std::unique_ptr<WeightFiles>>> parts_; // by prefix
};

namespace {

// Returns true for a .gguf file, and for a folder with one and without config.json. A folder with
// config.json is a model of safetensors or PyTorch.
bool is_gguf(const std::string& path, const Source& source) {
  return is_directory(path) ? !source.has("config.json") && holds_gguf(source)
                            : path.ends_with(".gguf");
}

Json parts_of(const ModelPlace& place) {
  Json parts = Json::array();
  const auto add = [&](const std::string& name, const char* kind, bool is_reference,
                       const std::string& address) {
    parts.push_back({{"name", name},
                     {"kind", kind},
                     {"stored", is_reference ? "reference" : "value"},
                     {"address", address}});
    if (const auto hub = hub::name_of_snapshot(address); hub && is_reference)
      parts.back()["hub"] = hub::text_of(*hub);
  };
  add(kBasePart, "network", place.reference.has_value(), place.base);
  for (const ModelPlace::Network& network : place.networks)
    add(network.name, "network", network.reference.has_value(), network.folder);
  for (const ModelPlace::Adapter& adapter : place.adapters)
    add(adapter.name, "adapter", adapter.is_reference(), adapter.folder);
  return parts;
}

} // namespace

WeightsOnDisk::WeightsOnDisk(const std::string& path) : path_(path) {
  if (const auto source = open_model_source(path); is_gguf(path, *source)) {
    kind_ = "gguf";
    content_ = std::make_unique<Gguf>(*source);
    return;
  }
  if (is_directory(path)) kind_ = "model";
  if (const auto latest = latest_checkpoint(path)) path_ = latest->folder;
  if (file_exists(join_path(path_, kCommitName))) {
    kind_ = "checkpoint";
    step_ = open_checkpoint(path_).step;
  }
  if (kind_ == "checkpoint") {
    place_ = model_place(path_);
    content_ = std::make_unique<Parts>(*place_);
    return;
  }
  auto files = std::make_unique<Files>(path_);
  if (kind_.empty()) kind_ = files->format();
  content_ = std::move(files);
}

WeightsOnDisk::~WeightsOnDisk() = default;

Json WeightsOnDisk::describe() const {
  Json object = {{"kind", kind_}, {"path", path_}};
  if (step_ >= 0) object["step"] = step_;
  const Json rows = content_->tensors();
  int64_t parameters = 0, bytes = 0;
  for (const Json& row : rows) {
    int64_t count = 1;
    for (const Json& extent : row["shape"]) count *= extent.get<int64_t>();
    parameters += count;
    bytes += row["bytes"].get<int64_t>();
  }
  object["parameters"] = parameters;
  object["bytes"] = bytes;
  object["metadata"] = content_->metadata();
  object["tensors"] = rows;
  if (place_) object["parts"] = parts_of(*place_);
  return object;
}

Tensor WeightsOnDisk::tensor(const std::string& name) const {
  return content_->tensor(name);
}

void WeightsOnDisk::verify(Task* task) const {
  if (step_ >= 0) verify_checkpoint(path_, task);
}

} // namespace dllm::ckpt
