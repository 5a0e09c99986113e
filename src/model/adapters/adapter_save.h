#pragma once
// Writes an adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors.

#include "ckpt/model_place.h"
#include "model/files/save.h"

#include <optional>
#include <string>
#include <vector>

namespace dllm::model {

// The file next to an adapter that says how its run used the base: {"config", "new_mask",
// "objective", "base"}. PEFT does not read it.
inline constexpr const char* kUseFile = "dllm.json";

// Returns how a model uses its base, for kUseFile.
Json adapter_use(const Model& model);

// Writes the files of an adapter into `folder`, which no other save may use. `base` is the path of
// the base model, which is a name and a revision in the config when it is in a cache of the hub,
// `use` the content of kUseFile. With several processes each one
// writes its own tensors, and the first one also writes both other files. Returns the names of the
// files that this process wrote. Consumes the snapshot. REQUIRES: the snapshot is one of an
// adapter.
std::vector<std::string> write_adapter_files(ModelSnapshot& snapshot, const std::string& folder,
                                             const std::string& base, const Json& use,
                                             Task* task = nullptr);

// The base of an adapter's run: its place, digest_of() of the place, and the format of most of its
// matrices in memory.
struct AdapterBase {
  std::string address, digest, format;

  // Returns "/models/base in nf4, digest 2-0123456789ab".
  std::string text() const;
};
// Returns the base of a model; nothing when it has other numbers than a place.
std::optional<AdapterBase> adapter_base(const Model& model);
// Returns what the folder of an adapter says; nothing when an older program wrote it, or when the
// base of its run had no place.
std::optional<AdapterBase> read_base(const std::string& folder);

// Sets how the run of an adapter used its base, when the folder of the adapter says so.
void read_use(const std::string& folder, ckpt::ModelPlace& place);

// Writes an adapter as a folder that appears complete or not at all. The config names the place of
// the base, when the base still has the numbers of that place. Progress counts bytes. Fails with
// not_found for an unknown adapter, and with already_exists when something is at `folder`.
void save_adapter(const Model& model, const std::string& name, const std::string& folder,
                  Task* task = nullptr);

} // namespace dllm::model
