#include "base/error.h"
#include "base/json.h"
#include "base/task.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace dllm::ckpt {

namespace {

constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000; // the limit of the format's own reader

// Length of the header, checked against the size of the file before it is used.
int64_t header_length(const Content& content, const std::string& file) {
  if (content.size() < kLengthBytes) {
    fail_with_hint("is the download complete?", Code::data_loss,
                   "{}: a safetensors file begins with 8 bytes of header length, found {} bytes",
                   file, content.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, content.read(0, kLengthBytes).data(), sizeof length);
  const auto left = static_cast<uint64_t>(content.size() - kLengthBytes);
  if (length > kMaxHeader) {
    fail(Code::data_loss, "{}: the header length {} is over the format's limit of {}", file, length,
         kMaxHeader);
  }
  if (length > left) {
    fail_with_hint("is the download complete?", Code::data_loss,
                   "{}: the header wants {} bytes, found {}", file, length, left);
  }
  return static_cast<int64_t>(length);
}

// The tensors must tile the data: no gap, no overlap, nothing left over.
void check_ranges(const TensorTable& tensors, int64_t data_size, const std::string& file) {
  std::vector<TensorTable::const_iterator> order;
  for (auto it = tensors.begin(); it != tensors.end(); ++it) order.push_back(it);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t at = 0;
  for (const auto& entry : order) {
    const auto& [name, tensor] = *entry;
    if (tensor.end > data_size) {
      fail_with_hint("is the download complete?", Code::data_loss,
                     "{}: tensor {} ends at byte {} of the data, found {} bytes", file, name,
                     tensor.end, data_size);
    }
    if (tensor.begin != at) {
      fail(Code::data_loss, "{}: tensor {} begins at byte {} of the data, expected {} ({})", file,
           name, tensor.begin, at, tensor.begin < at ? "it overlaps another" : "there is a gap");
    }
    at = tensor.end;
  }
  if (at != data_size) {
    fail(Code::data_loss, "{}: the tensors fill {} bytes of data, found {}", file, at, data_size);
  }
}

} // namespace

SafetensorsFile::SafetensorsFile(ContentRef content, std::string name)
    : content_(std::move(content)), name_(std::move(name)) {
  const int64_t length = header_length(*content_, name_);
  const Bytes header = content_->read(kLengthBytes, length);
  parse_safetensors_header(header.text(), name_, &tensors_, &metadata_);
  const int64_t data_begin = kLengthBytes + length;
  check_ranges(tensors_, content_->size() - data_begin, name_);
  for (auto& [tensor, info] : tensors_) {
    info.begin += data_begin;
    info.end += data_begin;
  }
}

SafetensorsFile::SafetensorsFile(Bytes bytes, std::string name)
    : SafetensorsFile(memory_content(std::move(bytes)), std::move(name)) {}

const TensorInfo& SafetensorsFile::info(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& entry : tensors_) names.push_back(entry.first);
  const std::string near = nearest(std::string(tensor), names);
  fail_with_hint(near.empty() ? "" : fmt::format("did you mean {}?", near), Code::not_found,
                 "{} holds no tensor {}", name_, tensor);
}

const TensorInfo& SafetensorsFile::readable(std::string_view tensor) const {
  const TensorInfo& found = info(tensor);
  if (!found.dtype) {
    fail_with_hint("convert it to F32, F16 or BF16", Code::unimplemented,
                   "{}: tensor {} has the element type {}, which dllm does not read", name_, tensor,
                   found.type);
  }
  return found;
}

Tensor SafetensorsFile::tensor(std::string_view tensor) const {
  const TensorInfo& found = readable(tensor);
  const Bytes part = content_->read(found.begin, found.end - found.begin);
  return view_or_copy(*found.dtype, found.shape, part);
}

Tensor SafetensorsFile::tensor_to(std::string_view tensor, std::byte* to, const Task* task) const {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const TensorInfo& found = readable(tensor);
  const int64_t size = found.end - found.begin;
  in_pieces(size, kPiece, task, [&](int64_t begin, int64_t end) {
    content_->read_to(found.begin + begin, end - begin, to + begin);
  });
  return Tensor(*found.dtype, found.shape, Bytes(to, static_cast<size_t>(size), nullptr));
}

Tensor SafetensorsFile::tensor_copy(std::string_view tensor, const Task* task) const {
  const TensorInfo& found = readable(tensor);
  Tensor made(*found.dtype, found.shape);
  tensor_to(tensor, made.mutable_bytes(), task);
  return made;
}

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
