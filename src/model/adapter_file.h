#pragma once
// A LoRA adapter in the files of PEFT, opened and checked before there is a model for it.

#include "ckpt/safetensors.h"
#include "model/adapter_config.h"
#include "model/model.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace dllm::model {

class AdapterFile {
public:
  explicit AdapterFile(const std::string& folder);
  int64_t bytes() const; // of its tensors
  // As load_adapters. done: bytes that the task has counted before, of the model's own weights.
  void add_to(Model& model, Task* task, int64_t done) const;

private:
  struct Pair {
    std::string down, up; // names of lora_A and lora_B in the file
  };
  static AdapterConfig read_config(const Source& source);
  void pair_tensors();
  void check_pairs() const;
  void warn_of_absent(const Model& model, const std::set<std::string>& kinds) const;

  std::string folder_;
  std::unique_ptr<const Source> source_;
  AdapterConfig config_;
  std::unique_ptr<const ckpt::SafetensorsFile> tensors_;
  std::map<std::string, Pair> pairs_; // by module: "model.layers.0.self_attn.q_proj"
};

} // namespace dllm::model
