#include "base/error.h"
#include "base/json.h"
#include "base/task.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/safetensors/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace dllm::ckpt {

namespace {

constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000; // the limit of the format's own reader

// Returns the length of the header. Compares it with the size of the file.
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

// Checks that the tensors cover the data without a gap, an overlap or bytes left over.
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
    : WeightFile(std::move(content), std::move(name)) {
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

Tensor SafetensorsFile::tensor(std::string_view tensor) const {
  const TensorInfo& found = readable(tensor);
  const Bytes part = content_->read(found.begin, found.end - found.begin);
  return view_or_copy(*found.dtype, found.shape, part);
}

Tensor SafetensorsFile::tensor_to(std::string_view tensor, std::byte* to, const Task* task) const {
  const TensorInfo& found = readable(tensor);
  const int64_t size = found.end - found.begin;
  in_pieces(size, content_->piece(), task, [&](int64_t begin, int64_t end) {
    content_->read_to(found.begin + begin, end - begin, to + begin);
  });
  return Tensor(*found.dtype, found.shape, Bytes(to, static_cast<size_t>(size), nullptr));
}

} // namespace dllm::ckpt
