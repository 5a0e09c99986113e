#pragma once
// What a save writes of a model: everything of one moment, so that the model may change while it is being written.

#include "model/model.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm::model {

// Trained parameters keep_shared: their numbers may share storage with the engine's arrays. A step that follows then
// copies an array before it writes over it. copied: they are copied now. Frozen parameters are never written over and
// stay shared.
enum class SnapshotMode { keep_shared, copied };

class ModelSnapshot {
public:
  // Fails with unimplemented for a model with adapters.
  ModelSnapshot(const Model& model, SnapshotMode mode, const Task* task);

  const ModelConfig& config() const { return config_; }
  const Model::SideFiles& side_files() const { return side_files_; }
  const std::vector<std::string>& names() const { return names_; }
  DType dtype(const std::string& name) const; // as a save with dtype auto writes it
  Shape shape(const std::string& name) const;
  // One logical tensor. The last tensor of a stack gives the memory of the stack back: each is taken once.
  Tensor take(const std::string& name, const Task* task);

private:
  struct Stack {
    ParamSpec spec;
    Tensor values;                  // of a trained parameter
    graph::BufferRef frozen, scale; // of a frozen one; scale: of int8 rows
    DType dtype = DType::f32;
    bool is_quantized = false;
    int64_t left = 0; // tensors that were not taken yet
  };
  struct Place {
    size_t stack = 0;
    size_t piece = 0;
    int64_t layer = 0;
  };
  ModelConfig config_;
  Model::SideFiles side_files_;
  std::vector<std::string> names_;
  std::vector<Stack> stacks_;
  std::map<std::string, Place> places_;
};

// A Hugging Face folder that appears whole or not at all. Uses the snapshot up.
void save_model(ModelSnapshot& snapshot, const std::string& folder, const Options& options,
                Task* task = nullptr);

// The numbers of a buffer on the host, in storage of their own.
Tensor read_copy(const graph::Buffer& buffer, const graph::Engine& engine, const Task* task);

} // namespace dllm::model
