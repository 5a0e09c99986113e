#pragma once
// The weights of a model, whether they lie in one safetensors file or in many with an index.

#include "base/source.h"
#include "ckpt/safetensors.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::ckpt {

// Looks for <base>.safetensors, then <base>.safetensors.index.json, then the only *.safetensors of
// the source. Every file is opened and checked at once; numbers are read when asked for. Reads are
// lock-free from any thread.
class WeightFiles {
public:
  explicit WeightFiles(const Source& source, const std::string& base = "model");

  bool has(std::string_view name) const { return where_.find(name) != where_.end(); }
  std::vector<std::string> names() const;              // sorted
  const TensorInfo& info(std::string_view name) const; // not_found with the nearest name
  Tensor tensor(std::string_view name) const;          // as SafetensorsFile::tensor
  Tensor tensor_to(std::string_view name, std::byte* to, const Task* task = nullptr) const {
    return file_of(name).tensor_to(name, to, task);
  }
  Tensor tensor_copy(std::string_view name, const Task* task = nullptr) const {
    return file_of(name).tensor_copy(name, task);
  }
  const Metadata& metadata() const { return files_.front().metadata(); } // of the first file
  size_t file_count() const { return files_.size(); }

private:
  void add_file(const Source& source, const std::string& name);
  void read_index(const Source& source, const std::string& name);
  const SafetensorsFile& file_of(std::string_view name) const;

  std::string described_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> where_; // tensor name to index in files_
};

} // namespace dllm::ckpt
