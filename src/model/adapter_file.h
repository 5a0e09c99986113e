#pragma once
// A LoRA adapter in the files of PEFT, opened and checked before there is a model for it.

#include "ckpt/safetensors.h"
#include "model/model.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::model {

class AdapterFile {
public:
  explicit AdapterFile(const std::string& folder);
  int64_t bytes() const; // of its tensors
  // As load_adapters. done: bytes that the task has counted before, of the model's own weights.
  void add_to(Model& model, Task* task, int64_t done) const;

private:
  AdapterOptions options_; // without targets
  std::unique_ptr<const ckpt::SafetensorsFile> tensors_;
};

} // namespace dllm::model
