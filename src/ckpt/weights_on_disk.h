#pragma once
// WeightsOnDisk opens weights to inspect them. The path may be a checkpoint of dllm, a run (its
// latest checkpoint), a model folder, or a file of safetensors, PyTorch or GGUF. Read-only; several
// threads may read.

#include "base/json.h"
#include "base/task.h"
#include "ckpt/model_place.h"
#include "tensor/tensor.h"

#include <memory>
#include <optional>
#include <string>

namespace dllm::ckpt {

class WeightsOnDisk {
public:
  explicit WeightsOnDisk(const std::string& path);
  ~WeightsOnDisk();

  // Returns {"kind", "path", "step", "parameters", "bytes", "metadata", "tensors": [{"name",
  // "dtype", "shape", "bytes"}], "parts": [{"name", "kind", "stored", "address"}]}; "step" and
  // "parts" only for a checkpoint. The tensors of a part by reference are not listed.
  Json describe() const;
  // Fails with not_found and the nearest name.
  Tensor tensor(const std::string& name) const;
  // Compares the checksums of a checkpoint. Does nothing for other weights.
  void verify(Task* task) const;

private:
  class Content;
  class Files;
  class Gguf;
  class Parts;
  std::string kind_, path_;
  int64_t step_ = -1;               // step of a checkpoint; -1 for other weights
  std::optional<ModelPlace> place_; // of a checkpoint
  std::unique_ptr<Content> content_;
};

} // namespace dllm::ckpt
