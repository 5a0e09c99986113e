#pragma once
// Writes an adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors.

#include "ckpt/model_place.h"
#include "model/files/save.h"

#include <string>
#include <vector>

namespace dllm::model {

// The file next to an adapter that says how its run used the base: {"config", "new_mask",
// "objective"}. PEFT does not read it.
inline constexpr const char* kUseFile = "dllm.json";

// Returns how a model uses its base, for kUseFile.
Json adapter_use(const Model& model);

// Writes the files of an adapter into `folder`, which no other save may use. `base` is the name of
// the base model in the config, `use` the content of kUseFile. With several processes each one
// writes its own tensors, and the first one also writes both other files. Returns the names of the
// files that this process wrote. Consumes the snapshot. REQUIRES: the snapshot is one of an
// adapter.
std::vector<std::string> write_adapter_files(ModelSnapshot& snapshot, const std::string& folder,
                                             const std::string& base, const Json& use,
                                             Task* task = nullptr);

// Sets how the run of an adapter used its base, when the folder of the adapter says so.
void read_use(const std::string& folder, ckpt::ModelPlace& place);

// Writes an adapter as a folder that appears complete or not at all. The config names the place of
// the base, when the base still has the numbers of that place. Progress counts bytes. Fails with
// not_found for an unknown adapter, and with already_exists when something is at `folder`.
void save_adapter(const Model& model, const std::string& name, const std::string& folder,
                  Task* task = nullptr);

} // namespace dllm::model
