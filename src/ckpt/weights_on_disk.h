#pragma once
// Weights on disk, to inspect: a checkpoint of dllm, a run (its latest checkpoint), a model folder, one
// safetensors or GGUF file. Read-only; reads may run together.

#include "base/json.h"
#include "base/task.h"
#include "tensor/tensor.h"

#include <memory>
#include <string>

namespace dllm::ckpt {

class WeightsOnDisk {
public:
  explicit WeightsOnDisk(const std::string& path);
  ~WeightsOnDisk();

  // {"kind", "path", "step", "parameters", "bytes", "metadata", "tensors": [{"name", "dtype", "shape", "bytes"}]}
  Json describe() const;
  Tensor tensor(const std::string& name) const; // not_found with the nearest name
  // Checksums of a checkpoint; elsewhere everything was checked when it was opened.
  void verify(Task* task) const;

private:
  class Content;
  class Files;
  class Gguf;
  std::string kind_, path_;
  int64_t step_ = -1; // of a checkpoint
  std::unique_ptr<Content> content_;
};

} // namespace dllm::ckpt
