#pragma once
// Weights as torch.save writes them (pytorch_model.bin, PyTorch 1.6 and later): a ZIP file with a pickle of names, shapes
// and strides, and one stored entry per storage. https://github.com/pytorch/pytorch (torch/serialization.py).

#include "ckpt/pickle.h"
#include "ckpt/safetensors.h"

#include <map>
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
  void add(const PickledTensor& tensor, int64_t storage_begin, int64_t storage_size);

  std::map<std::string, Strided, std::less<>> strided_;
};

} // namespace dllm::ckpt
