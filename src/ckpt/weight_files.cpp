#include "ckpt/weight_files.h"

#include "base/error.h"
#include "base/json.h"
#include "ckpt/safe_path.h"

#include <nlohmann/json.hpp>

namespace dllm::ckpt {
namespace {

constexpr std::string_view kSuffix = ".safetensors";

// The only *.safetensors file of a source; "" when there is none or more than one.
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
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!source.has(pickle)) continue;
    fail_with_hint(
        "load it in Python and save it again with save_pretrained(..., safe_serialization=True)",
        Code::unimplemented,
        "{} holds only {}: a pickle can run any code, dllm reads safetensors and GGUF",
        source.describe(), pickle);
  }
  fail_with_hint(
      "a model folder holds model.safetensors or model.safetensors.index.json with its shards",
      Code::not_found, "{} holds no {}.safetensors", source.describe(), base);
}

} // namespace

WeightFiles::WeightFiles(const Source& source, const std::string& base)
    : described_(source.describe()) {
  const std::string single = base + std::string(kSuffix);
  const std::string index = single + ".index.json";
  if (source.has(single)) {
    add_file(source, single);
  } else if (source.has(index)) {
    read_index(source, index);
  } else {
    const std::string lone = lone_file(source);
    if (lone.empty()) fail_no_weights(source, base);
    add_file(source, lone);
  }
}

void WeightFiles::add_file(const Source& source, const std::string& name) {
  files_.emplace_back(source.content(name), name);
  for (const auto& entry : files_.back().tensors()) where_.emplace(entry.first, files_.size() - 1);
}

// {"metadata": {...}, "weight_map": {tensor: file}}
void WeightFiles::read_index(const Source& source, const std::string& name) {
  const Bytes text = source.open(name);
  const Json index = parse_json(text.text(), name);
  const auto map = index.find("weight_map");
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    fail(Code::data_loss, "{}: there is no weight_map with tensors", name);
  }
  std::map<std::string, size_t> opened;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_safe_name(file.get_ref<const std::string&>())) {
      fail(Code::data_loss, "{}: tensor {} lies in {}, which is no file of this folder", name,
           tensor, file.dump());
    }
    const auto& shard = file.get_ref<const std::string&>();
    const auto [entry, added] = opened.emplace(shard, files_.size());
    if (added) {
      if (!source.has(shard)) {
        fail_with_hint("is the download complete?", Code::not_found,
                       "{}: {} names the file {}, which is not there", described_, name, shard);
      }
      files_.emplace_back(source.content(shard), shard);
    }
    if (!files_[entry->second].has(tensor)) {
      fail(Code::data_loss, "{}: tensor {} should lie in {}, which does not hold it", name, tensor,
           shard);
    }
    where_.emplace(tensor, entry->second);
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> list;
  for (const auto& entry : where_) list.push_back(entry.first);
  return list;
}

const SafetensorsFile& WeightFiles::file_of(std::string_view name) const {
  const auto found = where_.find(name);
  if (found != where_.end()) return files_[found->second];
  const std::string near = nearest(std::string(name), names());
  fail_with_hint(near.empty() ? "" : fmt::format("did you mean {}?", near), Code::not_found,
                 "{} holds no tensor {}", described_, name);
}

const TensorInfo& WeightFiles::info(std::string_view name) const {
  return file_of(name).info(name);
}

Tensor WeightFiles::tensor(std::string_view name) const {
  return file_of(name).tensor(name);
}

} // namespace dllm::ckpt
