#pragma once
// Weights as torch.save writes them (pytorch_model.bin, PyTorch 1.6 and later): a ZIP file with a pickle of names, shapes
// and strides, and one stored entry per storage. https://github.com/pytorch/pytorch (torch/serialization.py).

#include "ckpt/pickle.h"
#include "ckpt/safetensors.h"
#include "ckpt/zip.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace dllm::ckpt {

// Tensors may share a storage, begin inside of it and have strides (a transposed view): reads put their numbers in row
// order. TensorInfo::begin is the byte of the first number; end counts as if the numbers lay together.
class TorchFile final : public WeightFile {
public:
  TorchFile(ContentRef content, std::string name);
  TorchFile(Bytes bytes, std::string name);
  Tensor tensor(std::string_view tensor) const override;
  Tensor tensor_to(std::string_view tensor, std::byte* to,
                   const Task* task = nullptr) const override;
  // Of a tensor with strides all of it is read.
  Tensor part_to(std::string_view tensor, const Box& box, std::byte* to,
                 const Task* task = nullptr) const override;

private:
  // Of a tensor whose numbers do not lie together. Counted in elements.
  struct Strided {
    std::vector<int64_t> strides;
    int64_t span = 0; // from the first number to behind the last
  };
  // An entry of the archive, compared with its checksum once, at the first read of a tensor in it.
  struct Storage {
    std::string name;
    ZipEntry entry;
    std::once_flag compared;
  };
  void add(const PickledTensor& tensor, const ZipEntry& storage);
  // readable(), of a storage without damage: data_loss.
  const TensorInfo& undamaged(std::string_view tensor, const Task* task) const;
  void compare(const Storage& storage, const Task* task) const;

  std::map<std::string, Strided, std::less<>> strided_;
  std::map<std::string, Storage> storages_;
  std::map<std::string, Storage*, std::less<>> storage_of_; // by tensor
};

} // namespace dllm::ckpt
