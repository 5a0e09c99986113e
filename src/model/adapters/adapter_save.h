#pragma once
// Writes an adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors.

#include "model/files/save.h"

#include <string>
#include <vector>

namespace dllm::model {

// Writes the files of an adapter into `folder`, which no other save may use. `base` is the name of
// the base model in the config. With several processes each one writes its own tensors, and the
// first one also writes the config. Returns the names of the files that this process wrote.
// Consumes the snapshot. REQUIRES: the snapshot is one of an adapter.
std::vector<std::string> write_adapter_files(ModelSnapshot& snapshot, const std::string& folder,
                                             const std::string& base, Task* task = nullptr);

} // namespace dllm::model
