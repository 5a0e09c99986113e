#pragma once
// Writes an adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors.

#include "model/save.h"

#include <string>
#include <vector>

namespace dllm::model {

// What PEFT puts before the name of a tensor.
inline constexpr const char* kAdapterPrefix = "base_model.model.";

// The files of an adapter in a folder that belongs to this save alone; base: what the config calls the model that it is
// for. Of several processes each writes its tensors, the first the config too. Returns the names of the files that this
// process wrote. Uses the snapshot up. REQUIRES: the snapshot is one of an adapter.
std::vector<std::string> write_adapter_files(ModelSnapshot& snapshot, const std::string& folder,
                                             const std::string& base, Task* task = nullptr);

} // namespace dllm::model
