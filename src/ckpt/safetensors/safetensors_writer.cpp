#include "ckpt/safetensors/safetensors_writer.h"

#include "base/error.h"
#include "base/json.h"
#include "ckpt/safetensors/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace dllm::ckpt {
namespace {

constexpr size_t kAlignment = 64; // the data begins on a cache line of the mapped file

int64_t spec_bytes(const TensorSpec& spec) {
  return spec.shape.count() * dtype_size(spec.dtype);
}

void check_specs(const std::vector<TensorSpec>& specs) {
  std::vector<std::string_view> names;
  for (const TensorSpec& spec : specs) {
    checked_shape(spec.shape.dims(), dtype_size(spec.dtype), "tensor " + spec.name);
    if (spec.name == "__metadata__")
      fail(Code::invalid_argument, "no tensor can be named {}", spec.name);
    names.push_back(spec.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    fail(Code::invalid_argument, "tensor {} would be written twice", *twice);
}

// Returns JSON text. Fails with invalid_argument for names that are not UTF-8.
std::string dump_json(const Json& value) {
  try {
    return value.dump();
  } catch (const nlohmann::json::exception&) {
    fail(Code::invalid_argument, "names of tensors and metadata must be UTF-8");
  }
}

std::string header_text(const std::vector<TensorSpec>& order, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + dump_json(Json(metadata)) + ",";
  int64_t at = 0;
  for (const TensorSpec& spec : order) {
    const Json entry = {{"dtype", safetensors_type(spec.dtype)},
                        {"shape", spec.shape.dims()},
                        {"data_offsets", {at, at + spec_bytes(spec)}}};
    text += dump_json(Json(spec.name)) + ":" + entry.dump() + ",";
    at += spec_bytes(spec);
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  const size_t length_bytes = sizeof(uint64_t);
  text.append((kAlignment - (length_bytes + text.size()) % kAlignment) % kAlignment, ' ');
  return text;
}

} // namespace

std::vector<TensorSpec> file_order(std::vector<TensorSpec> specs) {
  std::sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const int64_t size_a = dtype_size(a.dtype), size_b = dtype_size(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  return specs;
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorSpec> specs,
                                     const Metadata& metadata)
    : path_(std::move(path)), order_(file_order(std::move(specs))) {
  check_specs(order_);
  const std::string header = header_text(order_, metadata);
  const uint64_t length = header.size();
  file_ = std::make_unique<FileWriter>(path_ + ".partial");
  file_->write(&length, sizeof length);
  file_->write(header.data(), header.size());
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  try {
    remove_all(path_ + ".partial");
  } catch (const Error&) {
    // The next writer of this path will overwrite the file.
  }
}

const TensorSpec& SafetensorsWriter::next_spec(std::string_view name) const {
  if (next_ >= order_.size())
    fail(Code::invalid_argument, "{}: tensor {} is one too many", path_, name);
  const TensorSpec& spec = order_[next_];
  if (name != spec.name)
    fail(Code::invalid_argument, "{}: tensor {} comes next, not {}", path_, spec.name, name);
  return spec;
}

void SafetensorsWriter::write(std::string_view name, const Tensor& tensor, const Task* task) {
  const TensorSpec& spec = next_spec(name);
  if (part_bytes_ > 0)
    fail(Code::invalid_argument, "{}: tensor {} has a part already", path_, name);
  if (tensor.dtype() != spec.dtype || tensor.shape() != spec.shape) {
    fail(Code::invalid_argument, "{}: tensor {} was announced as {} {}, got {} {}", path_, name,
         dtype_name(spec.dtype), spec.shape.text(), dtype_name(tensor.dtype()),
         tensor.shape().text());
  }
  if (tensor.byte_size() > 0)
    file_->write(tensor.bytes(), static_cast<size_t>(tensor.byte_size()), task);
  ++next_;
}

void SafetensorsWriter::write_part(std::string_view name, std::span<const std::byte> bytes,
                                   const Task* task) {
  const int64_t all = spec_bytes(next_spec(name)), size = std::ssize(bytes);
  if (size > all - part_bytes_) {
    fail(Code::invalid_argument, "{}: tensor {} has {} bytes, got {} after {}", path_, name, all,
         size, part_bytes_);
  }
  file_->write(bytes.data(), bytes.size(), task);
  part_bytes_ += size;
  if (part_bytes_ < all) return;
  part_bytes_ = 0;
  ++next_;
}

void SafetensorsWriter::close() {
  if (next_ < order_.size()) {
    fail(Code::failed_precondition, "{}: {} of {} tensors are missing, the next is {}", path_,
         order_.size() - next_, order_.size(), order_[next_].name);
  }
  file_->close();
  rename_path(path_ + ".partial", path_);
  file_.reset();
}

WeightWriter::WeightWriter(std::string folder, const std::string& base,
                           std::vector<TensorSpec> specs, int64_t max_bytes, Metadata metadata,
                           int64_t writer)
    : folder_(std::move(folder)), base_(base), metadata_(std::move(metadata)), writer_(writer) {
  deal(file_order(std::move(specs)), max_bytes);
  open_next();
}

// Deals the tensors to files. Every writer gets the same result.
void WeightWriter::deal(std::vector<TensorSpec> specs, int64_t max_bytes) {
  check_specs(specs);
  std::stable_sort(specs.begin(), specs.end(),
                   [](const TensorSpec& a, const TensorSpec& b) { return a.writer < b.writer; });
  int64_t filled = 0;
  for (const TensorSpec& spec : specs) {
    const int64_t bytes = spec_bytes(spec);
    const bool full = max_bytes > 0 && filled > 0 && bytes > max_bytes - filled;
    if (shards_.empty() || full || shards_.back().writer != spec.writer) {
      shards_.push_back({"", {}, spec.writer});
      filled = 0;
    }
    shards_.back().specs.push_back(spec);
    filled += bytes;
    total_bytes_ += bytes;
    if (spec.writer == writer_) order_.push_back(spec);
  }
  if (shards_.empty()) shards_.emplace_back();
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].name = shards_.size() == 1 ? base_ + ".safetensors"
                                          : fmt::format("{}-{:05}-of-{:05}.safetensors", base_,
                                                        i + 1, shards_.size());
  }
}

void WeightWriter::open_next() {
  while (next_shard_ < shards_.size() && shards_[next_shard_].writer != writer_) ++next_shard_;
  if (next_shard_ == shards_.size()) return; // this writer has no more
  const Shard& shard = shards_[next_shard_++];
  Metadata metadata = metadata_;
  metadata.emplace("format", "pt"); // other readers expect it for tensors in PyTorch's layout
  file_ =
      std::make_unique<SafetensorsWriter>(join_path(folder_, shard.name), shard.specs, metadata);
  shard_left_ = shard.specs.size();
}

void WeightWriter::write(std::string_view name, const Tensor& tensor, const Task* task) {
  if (shard_left_ == 0 && written_ < order_.size()) {
    file_->close();
    open_next();
  }
  if (file_ == nullptr)
    fail(Code::invalid_argument, "{}: this writer writes no tensor of the list", folder_);
  file_->write(name, tensor, task);
  --shard_left_;
  ++written_;
}

void WeightWriter::close() {
  if (written_ < order_.size()) {
    fail(Code::failed_precondition, "{}: {} of {} tensors are missing, the next is {}", folder_,
         order_.size() - written_, order_.size(), order_[written_].name);
  }
  if (file_ != nullptr) file_->close();
  file_.reset();
  if (has_index()) write_index();
}

std::vector<std::string> WeightWriter::files() const {
  std::vector<std::string> names;
  for (const Shard& shard : shards_) {
    if (shard.writer == writer_) names.push_back(shard.name);
  }
  if (has_index()) names.push_back(base_ + ".safetensors.index.json");
  return names;
}

void WeightWriter::write_index() const {
  std::map<std::string, std::string> where;
  for (const Shard& shard : shards_) {
    for (const TensorSpec& spec : shard.specs) where[spec.name] = shard.name;
  }
  Json index;
  index["metadata"]["total_size"] = total_bytes_;
  Json& map = index["weight_map"] = Json::object();
  // The names are sorted and unique, so the linear search of operator[] is not needed.
  auto& members = static_cast<Json::object_t::Container&>(map.get_ref<Json::object_t&>());
  for (const auto& [name, file] : where) members.emplace_back(name, file);
  write_file_atomic(join_path(folder_, base_ + ".safetensors.index.json"), index.dump(2) + "\n");
}

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const Metadata& metadata) {
  std::vector<TensorSpec> specs;
  std::map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, tensor.dtype(), tensor.shape()});
    by_name[name] = &tensor;
  }
  SafetensorsWriter writer(path, std::move(specs), metadata);
  for (const TensorSpec& spec : writer.order()) writer.write(spec.name, *by_name.at(spec.name));
  writer.close();
}

} // namespace dllm::ckpt
