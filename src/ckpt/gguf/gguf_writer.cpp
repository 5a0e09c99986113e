#include "ckpt/gguf/gguf_writer.h"

#include "base/error.h"

#include <set>

namespace dllm::ckpt {
namespace {

constexpr int64_t kGgufAlignment = 32; // the alignment of files without the key general.alignment
constexpr uint32_t kGgufVersion = 3;

template <class T> void put_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view value) {
  put_number<uint64_t>(bytes, value.size());
  bytes += value;
}

int64_t aligned(int64_t size) {
  return (size + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

void check_specs(const std::string& path, const std::vector<GgufTensorSpec>& tensors) {
  std::set<std::string_view> names;
  for (const GgufTensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      fail(Code::invalid_argument, "{}: tensor {} would be written twice", path, tensor.name);
    if (!ggml_type_of(*tensor.format))
      fail(Code::unimplemented, "GGUF has no type for {} (tensor {})", tensor.format->name,
           tensor.name);
    if (tensor.shape.rank() < 1 || tensor.shape.rank() > 4 ||
        !tensor.format->fits(tensor.shape.dim(-1)))
      fail(Code::invalid_argument, "tensor {} {} does not fit {}", tensor.name, tensor.shape.text(),
           tensor.format->name);
  }
}

} // namespace

void GgufMetadata::begin(const std::string& key, GgufType type) {
  put_text(bytes_, key);
  put_number(bytes_, static_cast<uint32_t>(type));
  ++count_;
}

void GgufMetadata::begin_list(const std::string& key, GgufType element, size_t count) {
  begin(key, GgufType::array);
  put_number(bytes_, static_cast<uint32_t>(element));
  put_number<uint64_t>(bytes_, count);
}

void GgufMetadata::text(const std::string& key, std::string_view value) {
  begin(key, GgufType::text);
  put_text(bytes_, value);
}

void GgufMetadata::u32(const std::string& key, int64_t value) {
  if (value < 0 || value > UINT32_MAX)
    fail(Code::out_of_range, "{} is {}, GGUF holds 0 to {}", key, value, UINT32_MAX);
  begin(key, GgufType::u32);
  put_number(bytes_, static_cast<uint32_t>(value));
}

void GgufMetadata::f32(const std::string& key, double value) {
  begin(key, GgufType::f32);
  put_number(bytes_, static_cast<float>(value));
}

void GgufMetadata::boolean(const std::string& key, bool value) {
  begin(key, GgufType::boolean);
  put_number(bytes_, static_cast<uint8_t>(value ? 1 : 0));
}

void GgufMetadata::texts(const std::string& key, const std::vector<std::string>& values) {
  begin_list(key, GgufType::text, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
}

void GgufMetadata::integers(const std::string& key, const std::vector<int32_t>& values) {
  begin_list(key, GgufType::i32, values.size());
  for (const int32_t value : values) put_number(bytes_, value);
}

void GgufMetadata::copy(const std::string& key, const GgufValue& value) {
  if (value.is_array)
    begin_list(key, value.type, static_cast<size_t>(value.count));
  else
    begin(key, value.type);
  bytes_ += value.raw.text();
}

GgufWriter::GgufWriter(std::string path, const GgufMetadata& metadata,
                       std::vector<GgufTensorSpec> tensors)
    : path_(std::move(path)), tensors_(std::move(tensors)) {
  check_specs(path_, tensors_);
  std::string header = "GGUF";
  put_number(header, kGgufVersion);
  put_number<uint64_t>(header, tensors_.size());
  put_number(header, static_cast<uint64_t>(metadata.count()));
  header += metadata.bytes();
  int64_t offset = 0;
  for (const GgufTensorSpec& tensor : tensors_) {
    put_text(header, tensor.name);
    put_number(header, static_cast<uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis)
      put_number(header, static_cast<uint64_t>(tensor.shape[axis]));
    put_number(header, *ggml_type_of(*tensor.format));
    put_number(header, static_cast<uint64_t>(offset));
    offset = aligned(offset + tensor.bytes());
  }
  header.resize(static_cast<size_t>(aligned(static_cast<int64_t>(header.size()))));
  file_ = std::make_unique<FileWriter>(path_ + ".partial");
  file_->write(header.data(), header.size());
  written_ = static_cast<int64_t>(header.size());
  left_ = tensors_.empty() ? 0 : tensors_.front().bytes();
}

GgufWriter::~GgufWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  try {
    remove_all(path_ + ".partial");
  } catch (const Error&) {
    // The next writer of this path will overwrite the file.
  }
}

void GgufWriter::pad() {
  const char zeros[kGgufAlignment] = {};
  const int64_t size = aligned(written_) - written_;
  file_->write(zeros, static_cast<size_t>(size));
  written_ += size;
}

void GgufWriter::write(const void* data, int64_t size, const Task* task) {
  if (next_ >= tensors_.size() || size > left_)
    fail(Code::invalid_argument, "{}: {} bytes are too many for the tensor that comes next", path_,
         size);
  file_->write(data, static_cast<size_t>(size), task);
  written_ += size;
  left_ -= size;
  while (left_ == 0 && next_ < tensors_.size()) {
    pad();
    if (++next_ < tensors_.size()) left_ = tensors_[next_].bytes();
  }
}

void GgufWriter::close() {
  if (next_ < tensors_.size())
    fail(Code::failed_precondition, "{}: {} bytes of tensor {} are missing", path_, left_,
         tensors_[next_].name);
  file_->close();
  rename_path(path_ + ".partial", path_);
  sync_path(parent_path(path_).empty() ? "." : parent_path(path_));
  file_.reset();
}

} // namespace dllm::ckpt
