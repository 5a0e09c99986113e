#pragma once
// A TorchFile reads weights that torch.save wrote (pytorch_model.bin, PyTorch 1.6 and later). The
// file is a ZIP file with a pickle of names, shapes and strides, and one stored entry per storage:
// https://github.com/pytorch/pytorch (torch/serialization.py).

#include "ckpt/safetensors/safetensors.h"
#include "ckpt/torch/pickle.h"
#include "ckpt/torch/zip.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace dllm::ckpt {

// Tensors may share a storage, begin inside it and have strides, as a transposed view does. Reads
// return the numbers in row-major order. TensorInfo::begin is the byte of the first number; end -
// begin is the number of bytes of a contiguous copy.
class TorchFile final : public WeightFile {
public:
  TorchFile(ContentRef content, std::string name);
  TorchFile(Bytes bytes, std::string name);
  Tensor tensor(std::string_view tensor) const override;
  Tensor tensor_to(std::string_view tensor, std::byte* to,
                   const Task* task = nullptr) const override;
  // Reads the whole tensor if it has strides.
  Tensor part_to(std::string_view tensor, const Box& box, std::byte* to,
                 const Task* task = nullptr) const override;

private:
  // The strides of a tensor that is not contiguous, in elements.
  struct Strided {
    std::vector<int64_t> strides;
    int64_t span = 0; // elements from the first to the last, both included
  };
  // An entry of the archive. The first read of a tensor in it compares the checksum.
  struct Storage {
    std::string name;
    ZipEntry entry;
    std::once_flag compared;
  };
  void add(const PickledTensor& tensor, const ZipEntry& storage);
  // Does what readable() does, and fails with data_loss if the storage has another checksum.
  const TensorInfo& undamaged(std::string_view tensor, const Task* task) const;
  void compare(const Storage& storage, const Task* task) const;

  std::map<std::string, Strided, std::less<>> strided_;
  std::map<std::string, Storage> storages_;
  std::map<std::string, Storage*, std::less<>> storage_of_; // by name of the tensor
};

} // namespace dllm::ckpt
