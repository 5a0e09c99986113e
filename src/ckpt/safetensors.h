#pragma once
// The safetensors format: 8 bytes of header length (little-endian), a JSON header, then the numbers
// of every tensor without gaps. https://github.com/huggingface/safetensors (README, "Format").
// Little-endian hosts only.

#include "base/bytes.h"
#include "base/input_file.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::ckpt {

// One tensor as a file describes it. `type` is the file's word ("BF16"); `dtype` is empty for types
// that dllm does not hold (their bytes are there, only tensor() refuses them). BOOL is held as u8.
struct TensorInfo {
  std::string type;
  std::optional<DType> dtype;
  Shape shape;
  std::string file;  // name of the file inside its source
  int64_t begin = 0; // byte range in the file
  int64_t end = 0;
};

using TensorTable = std::map<std::string, TensorInfo, std::less<>>;
using Metadata = std::map<std::string, std::string>;

// A file that was checked whole when it was opened: header, names, shapes and ranges. Reads are
// lock-free from any thread. Errors name the file and the tensor, with expected and found numbers;
// a file on disk that changed since it was opened is data_loss.
class SafetensorsFile {
public:
  // name: for error texts, and TensorInfo::file.
  SafetensorsFile(ContentRef content, std::string name);
  SafetensorsFile(Bytes bytes, std::string name);

  const std::string& name() const { return name_; }
  const TensorTable& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  bool has(std::string_view tensor) const { return tensors_.find(tensor) != tensors_.end(); }
  const TensorInfo& info(std::string_view tensor) const; // not_found with the nearest name
  // Read-only. Over bytes in memory a view where they are aligned for the type, else a copy.
  Tensor tensor(std::string_view tensor) const;
  // The same read into `to`, which has room for info(tensor).end - begin bytes and outlives the view.
  // The task is checked every 4 MB.
  Tensor tensor_to(std::string_view tensor, std::byte* to, const Task* task = nullptr) const;
  // The same into memory of its own.
  Tensor tensor_copy(std::string_view tensor, const Task* task = nullptr) const;

private:
  const TensorInfo& readable(std::string_view tensor) const;

  ContentRef content_;
  std::string name_;
  TensorTable tensors_;
  Metadata metadata_;
};

// What will be written, before any number of it exists.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// Largest elements first, then by name: every tensor is aligned and the same tensors always give
// the same file.
std::vector<TensorSpec> file_order(std::vector<TensorSpec> specs);

} // namespace dllm::ckpt
