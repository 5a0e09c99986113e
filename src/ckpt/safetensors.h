#pragma once
// The safetensors format: 8 bytes of header length (little-endian), a JSON header, then the numbers
// of every tensor without gaps. https://github.com/huggingface/safetensors (README, "Format").
// Little-endian hosts only.

#include "base/files.h"
#include "tensor/box.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
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

// A file of tensors (safetensors here, PyTorch in torch_file.h) that was checked whole when it was opened: header, names,
// shapes and ranges. Reads are lock-free from any thread. Errors name the file and the tensor, with
// expected and found numbers; a file on disk that changed since it was opened is data_loss.
class WeightFile {
public:
  virtual ~WeightFile() = default;
  const std::string& name() const { return name_; }
  const TensorTable& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  bool has(std::string_view tensor) const { return tensors_.find(tensor) != tensors_.end(); }
  const TensorInfo& info(std::string_view tensor) const; // not_found with the nearest name
  // Read-only. Over bytes in memory a view where they are aligned for the type, else a copy.
  virtual Tensor tensor(std::string_view tensor) const = 0;
  // The same read into `to`, which has room for info(tensor).end - begin bytes and outlives the view.
  // The task is checked every 4 MB.
  virtual Tensor tensor_to(std::string_view tensor, std::byte* to,
                           const Task* task = nullptr) const = 0;
  // The same into memory of its own.
  Tensor tensor_copy(std::string_view tensor, const Task* task = nullptr) const;
  // A part of it, read into `to`, which has room for the part: of the file no more than the part and small gaps.
  virtual Tensor part_to(std::string_view tensor, const Box& box, std::byte* to,
                         const Task* task = nullptr) const;
  Tensor part_copy(std::string_view tensor, const Box& box, const Task* task = nullptr) const;

protected:
  // name: for error texts, and TensorInfo::file.
  WeightFile(ContentRef content, std::string name)
      : content_(std::move(content)), name_(std::move(name)) {}
  const TensorInfo&
  readable(std::string_view tensor) const; // unimplemented: a type without a dtype

  ContentRef content_;
  std::string name_;
  TensorTable tensors_;
  Metadata metadata_;
};

class SafetensorsFile final : public WeightFile {
public:
  SafetensorsFile(ContentRef content, std::string name);
  SafetensorsFile(Bytes bytes, std::string name);
  Tensor tensor(std::string_view tensor) const override;
  Tensor tensor_to(std::string_view tensor, std::byte* to,
                   const Task* task = nullptr) const override;
};

// What will be written, before any number of it exists.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t writer = 0; // of several processes that write the files of one model together: its number
};

// Largest elements first, then by name: every tensor is aligned and the same tensors always give
// the same file.
std::vector<TensorSpec> file_order(std::vector<TensorSpec> specs);

// The JSON header of a safetensors file, read without building a JSON tree and before anything is
// allocated for it.

// Size in bytes of one element of a type word, 0 for unknown words.
int64_t safetensors_type_size(std::string_view type);
std::optional<DType> safetensors_dtype(std::string_view type);
const char* safetensors_type(DType dtype);

// Fills the tables; begin and end are counted from the start of the data. Fails with data_loss.
void parse_safetensors_header(std::string_view json, const std::string& file, TensorTable* tensors,
                              Metadata* metadata);

// A tensor over bytes, without a copy where the address allows it.

// REQUIRES: bytes.size() fits the type and shape.
inline Tensor view_or_copy(DType dtype, Shape shape, const Bytes& bytes) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  if (address % static_cast<uintptr_t>(dtype_size(dtype)) == 0)
    return Tensor(dtype, std::move(shape), bytes);
  Tensor copy(dtype, std::move(shape));
  if (!bytes.empty()) std::memcpy(copy.mutable_bytes(), bytes.data(), bytes.size());
  return copy;
}

// The weights of a model, whether they lie in one file or in many with an index.

// Looks for <base>.safetensors, then <base>.safetensors.index.json, then the only *.safetensors of
// the source; without any, for pytorch_model.bin, its index, or the .bin file that is all of the source. Every file is opened and checked at once; numbers are read by the functions that return them. Reads are
// lock-free from any thread.
class WeightFiles {
public:
  explicit WeightFiles(const Source& source, const std::string& base = "model");

  bool has(std::string_view name) const { return where_.find(name) != where_.end(); }
  std::vector<std::string> names() const;              // sorted
  const TensorInfo& info(std::string_view name) const; // not_found with the nearest name
  Tensor tensor(std::string_view name) const;          // as SafetensorsFile::tensor
  Tensor tensor_to(std::string_view name, std::byte* to, const Task* task = nullptr) const {
    return file_of(name).tensor_to(name, to, task);
  }
  Tensor tensor_copy(std::string_view name, const Task* task = nullptr) const {
    return file_of(name).tensor_copy(name, task);
  }
  Tensor part_to(std::string_view name, const Box& box, std::byte* to,
                 const Task* task = nullptr) const {
    return file_of(name).part_to(name, box, to, task);
  }
  Tensor part_copy(std::string_view name, const Box& box, const Task* task = nullptr) const {
    return file_of(name).part_copy(name, box, task);
  }
  const Metadata& metadata() const { return files_.front()->metadata(); } // of the first file
  size_t file_count() const { return files_.size(); }
  const char* format() const { return is_torch_ ? "pytorch" : "safetensors"; }

private:
  void add_file(const Source& source, const std::string& name);
  void read_index(const Source& source, const std::string& name);
  void find_torch_files(const Source& source, const std::string& base);
  void open_file(const Source& source, const std::string& name);
  const WeightFile& file_of(std::string_view name) const;

  std::string described_;
  bool is_torch_ = false;
  std::vector<std::unique_ptr<const WeightFile>> files_;
  std::map<std::string, size_t, std::less<>> where_; // tensor name to index in files_
};

} // namespace dllm::ckpt
