#include "ckpt/weights_on_disk.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/gguf_parts.h"
#include "ckpt/safetensors.h"

#include <nlohmann/json.hpp>

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

} // namespace

class WeightsOnDisk::Files final : public Content {
public:
  explicit Files(const std::string& path) : files_(*open_source(path)) {}

  Json metadata() const override {
    Json object = Json::object();
    for (const auto& [key, value] : files_.metadata()) object[key] = value;
    return object;
  }
  Json tensors() const override {
    Json rows = Json::array();
    for (const std::string& name : files_.names()) {
      const TensorInfo& info = files_.info(name);
      rows.push_back(tensor_row(name, info.type, info.shape, info.end - info.begin));
    }
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

namespace {

// Returns true for a .gguf file, and for a folder with one and without config.json. A folder with
// config.json is a model of safetensors or PyTorch.
bool is_gguf(const std::string& path, const Source& source) {
  return is_directory(path) ? !source.has("config.json") && holds_gguf(source)
                            : path.ends_with(".gguf");
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
  auto files = std::make_unique<Files>(kind_ == "checkpoint" ? join_path(path_, "model") : path_);
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
  return object;
}

Tensor WeightsOnDisk::tensor(const std::string& name) const {
  return content_->tensor(name);
}

void WeightsOnDisk::verify(Task* task) const {
  if (step_ >= 0) verify_checkpoint(path_, task);
}

} // namespace dllm::ckpt
