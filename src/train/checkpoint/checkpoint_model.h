#pragma once
// Stores and reads the model in a checkpoint. Each part is stored by value (a folder) or by
// reference (the place that it was loaded from). Private to src/train.
//
// trainer.json lists the parts:
//   {"name": "base", "kind": "network", "stored": "value", "folder": "model", "trained": true}
//   {"name": "base", "kind": "network", "stored": "reference", "address": "/models/qwen",
//    "digest": "9f86...", "formats": ["f32", "int8"], "config": {...}}
// A checkpoint without the list holds the base by value in "model".

#include "base/json.h"
#include "model/files/save.h"
#include "model/model.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

// The model at one moment, as a checkpoint stores it. A part by value has a snapshot.
class StoredModel {
public:
  // Stores a part by reference when the part has an origin and `trained` contains none of its
  // parameters. Stores other parts by value.
  StoredModel(const model::Model& model, const model::Selection& trained, model::SnapshotMode mode,
              model::WriterShares& shares, const Task* task, CopyPool* pool);

  Json list() const; // the list of parts in trainer.json
  // Writes the files of this process under `folder` and returns their names there. Consumes the
  // snapshots.
  std::vector<std::string> write(const std::string& folder, Task* task);

private:
  struct Stored {
    std::string name, folder; // `folder` is empty for a reference
    bool is_adapter = false, is_trained = false;
    std::optional<model::PartOrigin> origin; // of a part by reference
    Json config;                             // of a network by reference
    std::vector<std::string> formats;        // of the parameters, each once
    Json format_of;                          // of a network by reference, by parameter
    model::Model::SideFiles side_files;      // of a base by reference
    Json use;                                // of an adapter by value, as adapter_use()
    std::optional<model::ModelSnapshot> snapshot;

    const char* kind() const { return is_adapter ? "adapter" : "network"; }
  };
  std::vector<Stored> parts_;
};

// The parts of a checkpoint, opened for reading and compared with the parts of a model.
class SavedModel {
public:
  // Opens the parts. Fails with failed_precondition when the model has other parts or tensors, or
  // another origin of a part by reference. Fails with data_loss for a damaged list.
  SavedModel(const Json& trainer, const std::string& checkpoint, const model::Model& model);
  ~SavedModel();
  SavedModel(SavedModel&&) noexcept;

  // Returns the config of the base when it was saved.
  const model::ModelConfig& config() const { return *config_; }
  // Returns the numbers of parameters to replace, by physical index. These are all trained
  // parameters, as the f32 masters that they were, and the other parameters whose numbers differ.
  // With several processes each one reads its parts.
  std::vector<std::pair<size_t, graph::BufferRef>> read(const std::vector<size_t>& trained,
                                                        const Task* task) const;
  // Fails with failed_precondition where a quantized parameter holds other numbers than the
  // checkpoint. Quantizing the saved numbers again could change them.
  void check_quantized(const Task* task) const;

private:
  struct Opened;
  const Opened* find(const std::string& part) const; // null: the part is stored by reference
  void open(const Json& row, const std::string& checkpoint);
  void check_reference(const Json& row);
  void check_tensors(const Opened& part) const;

  const model::Model& model_;
  std::vector<std::unique_ptr<Opened>> parts_;
  std::optional<model::ModelConfig> config_; // set by the base, which every model has
};

} // namespace dllm::train
