#pragma once
// Opens a LoRA adapter in the files of PEFT and checks it before a model for it exists.

#include "ckpt/safetensors.h"
#include "model/adapters/adapter_config.h"
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
  int64_t bytes() const; // bytes of its tensors
  // Bytes that the task counts apart from this adapter.
  struct Bytes {
    int64_t before = 0; // of the model's own weights, and of other adapters
    int64_t after = 0;
  };
  // Adds the adapter as load_adapters does, as part "adapter:<name>".
  void add_to(Model& model, const std::string& name, Task* task, const Bytes& others) const;

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
