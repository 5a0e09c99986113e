#pragma once
// WeightFile reads one file of weights, and WeightFiles the weights of a model in one file or many.
// A safetensors file has 8 bytes of header length (little-endian), a JSON header, and the numbers
// of all tensors without gaps. Source: https://github.com/huggingface/safetensors (README,
// "Format"). Little-endian hosts only.

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

// One tensor as a file describes it.
struct TensorInfo {
  std::string type;           // the word of the file, "BF16"
  std::optional<DType> dtype; // u8 for BOOL and F8_E4M3; empty for types that are not read
  Shape shape;
  std::string file;  // name of the file in its source
  int64_t begin = 0; // byte range in the file
  int64_t end = 0;
};

using TensorTable = std::map<std::string, TensorInfo, std::less<>>;
using Metadata = std::map<std::string, std::string>;

// A file of tensors: safetensors here, PyTorch in torch_file.h. The constructor checks the header,
// names, shapes and ranges. Reads are lock-free from any thread. Errors name the file, the tensor,
// and the expected and found numbers. Reads fail with data_loss if the file on disk has changed
// since it was opened.
class WeightFile {
public:
  virtual ~WeightFile() = default;
  const std::string& name() const { return name_; }
  const TensorTable& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  bool has(std::string_view tensor) const { return tensors_.find(tensor) != tensors_.end(); }
  // Fails with not_found and the nearest name.
  const TensorInfo& info(std::string_view tensor) const;
  // Returns a read-only tensor: a view of bytes in memory if they are aligned for the type, else a
  // copy.
  virtual Tensor tensor(std::string_view tensor) const = 0;
  // Reads a tensor into `to` and returns a view of it. Checks the task between pieces. REQUIRES:
  // `to` has room for info(tensor).end - begin bytes and outlives the view.
  virtual Tensor tensor_to(std::string_view tensor, std::byte* to,
                           const Task* task = nullptr) const = 0;
  // Reads a tensor into its own memory.
  Tensor tensor_copy(std::string_view tensor, const Task* task = nullptr) const;
  // Read a part of a tensor, into `to` or into its own memory. They read no more of the file than
  // the part and small gaps. REQUIRES: `to` has room for the part.
  virtual Tensor part_to(std::string_view tensor, const Box& box, std::byte* to,
                         const Task* task = nullptr) const;
  Tensor part_copy(std::string_view tensor, const Box& box, const Task* task = nullptr) const;

protected:
  // name: used in errors and as TensorInfo::file.
  WeightFile(ContentRef content, std::string name)
      : content_(std::move(content)), name_(std::move(name)) {}
  // Fails with unimplemented for a type without a dtype.
  const TensorInfo& readable(std::string_view tensor) const;

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

// A tensor that will be written. Its numbers need not exist yet.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t writer = 0; // index of the process that writes it, if several write one model
};

// Sorts tensors by element size, largest first, then by name. So every tensor is aligned, and the
// same tensors always give the same file.
std::vector<TensorSpec> file_order(std::vector<TensorSpec> specs);

// Returns the bytes of one element of a type such as "BF16"; 0 for an unknown type.
int64_t safetensors_type_size(std::string_view type);
std::optional<DType> safetensors_dtype(std::string_view type);
const char* safetensors_type(DType dtype);

// Parses a header into the tables, without building a JSON tree. begin and end of a tensor count
// from the start of the data. Fails with data_loss.
void parse_safetensors_header(std::string_view json, const std::string& file, TensorTable* tensors,
                              Metadata* metadata);

// Returns a tensor over bytes; a copy if the address is not aligned for the type. REQUIRES:
// bytes.size() fits the type and shape.
inline Tensor view_or_copy(DType dtype, Shape shape, const Bytes& bytes) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  if (address % static_cast<uintptr_t>(dtype_size(dtype)) == 0)
    return Tensor(dtype, std::move(shape), bytes);
  Tensor copy(dtype, std::move(shape));
  if (!bytes.empty()) std::memcpy(copy.mutable_bytes(), bytes.data(), bytes.size());
  return copy;
}

// The weights of a model, in one file or in several with an index. Searches <base>.safetensors,
// then <base>.safetensors.index.json, then the only *.safetensors file of the source. Without these
// it searches pytorch_model.bin, then its index, then a source that is a single .bin file. The
// constructor opens and checks every file; numbers are read later, by the functions that return
// them. Reads are lock-free from any thread.
class WeightFiles {
public:
  explicit WeightFiles(const Source& source, const std::string& base = "model");

  bool has(std::string_view name) const { return where_.find(name) != where_.end(); }
  std::vector<std::string> names() const; // sorted
  // The functions below do what the functions of WeightFile do.
  const TensorInfo& info(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
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
  // Returns the metadata of the first file.
  const Metadata& metadata() const { return files_.front()->metadata(); }
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
  std::map<std::string, size_t, std::less<>> where_; // index in files_, by name of the tensor
};

} // namespace dllm::ckpt
