#pragma once
// Opens an adapter in the files of PEFT and checks it before a model for it exists.

#include "ckpt/safetensors/safetensors.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_config.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

class AdapterFile {
public:
  explicit AdapterFile(const std::string& folder);
  int64_t bytes() const;        // bytes of its tensors
  int64_t loaded_bytes() const; // bytes of its numbers in a model
  // Bytes that the task counts apart from this adapter.
  struct Bytes {
    int64_t before = 0; // of the model's own weights, and of other adapters
    int64_t after = 0;
  };
  // Adds the adapter as load_adapter does, as part "adapter:<name>".
  void add_to(Model& model, const std::string& name, Task* task, const Bytes& others) const;

private:
  // The tensors of a module: names in the file, by AdapterTensor::ending.
  using Module = std::map<std::string_view, std::string>;
  static AdapterConfig read_config(const Source& source);
  bool is_copy(const std::string& tensor) const;
  void find_modules();
  [[noreturn]] void fail_other(const std::string& tensor) const;
  void check_modules() const;
  void check_module(const std::string& module, const Module& own, const std::string*& half) const;
  // Returns the copies by their names in the model, without that of a head that is the embedding.
  std::map<std::string, std::string> copies_in(const Model& model, const Task* task) const;
  bool has_same_numbers(const std::string& a, const std::string& b, const Task* task) const;
  void warn_of_absent(const Model& model, const std::set<std::string>& kinds) const;

  std::string folder_;
  std::unique_ptr<const Source> source_;
  AdapterConfig config_;
  std::unique_ptr<const ckpt::SafetensorsFile> tensors_;
  std::map<std::string, Module> modules_; // by name: "model.layers.0.self_attn.q_proj"
  std::vector<std::string> copies_;       // tensors of modules_to_save
  std::string tied_copy_;                 // one that is no module of them: a tied head
};

// Adds an adapter with the numbers of a PEFT folder (adapter_config.json,
// adapter_model.safetensors) of any kind (kinds/). Fails as add_adapter, with
// not_found for a matrix that the model lacks, and with unimplemented for other adapters and
// settings. The task is checked inside of every tensor; its progress counts bytes of the file.
void load_adapter(Model& model, const std::string& name, const std::string& folder,
                  Task* task = nullptr);

// Warns when the folder's dllm.json says that the base of the adapter's run had other numbers or
// another format than the base of the model. Floats of 16 and 32 bits count as one format. Fails
// for a damaged file.
void warn_of_other_base(const Model& model, const std::string& folder);
// Calls warn_of_other_base. Also warns when the folder's dllm.json says that the adapter was
// trained with another attention, shift or mask token than the model has. Fails for a damaged file.
void warn_of_other_use(const Model& model, const std::string& folder);

} // namespace dllm::model
