#pragma once
// The arrays of a trainer in a checkpoint. Each process that took part in the run wrote one file.

#include "ckpt/safetensors/safetensors.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm::ckpt {

// Before the name of a tensor that holds the moving average of a weight.
inline constexpr const char* kAverage = "ema";

// Returns the file of a writer in a checkpoint: "state/rank_003.safetensors".
std::string state_file(int64_t writer);

// The constructor opens the files. Their tensors have names such as "first.model.norm.weight".
class StateFiles {
public:
  // Fails with data_loss for a damaged list of files.
  explicit StateFiles(const std::string& checkpoint);

  size_t count() const { return where_.size(); }
  // Returns the names of all tensors with their files.
  const std::map<std::string, const SafetensorsFile*>& tensors() const { return where_; }
  // Returns the file of a tensor; null when no file has it.
  const SafetensorsFile* find(const std::string& name) const;

private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> where_;
};

} // namespace dllm::ckpt
