#pragma once
// Writing safetensors: the header first, then one tensor at a time, so that no second copy of a
// model is ever in memory. The same tensors, metadata and limit give the same bytes.

#include "base/files.h"
#include "ckpt/safetensors.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::ckpt {

// One file. Tensors come in the order of order(). The file appears under its name at close(),
// durable and whole; before that, and after a failure, only `path`.partial exists, which the
// destructor removes.
class SafetensorsWriter {
public:
  SafetensorsWriter(std::string path, std::vector<TensorSpec> specs, const Metadata& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  const std::vector<TensorSpec>& order() const { return order_; }
  // name must be the next of order(), with its type and shape; else invalid_argument.
  void write(std::string_view name, const Tensor& tensor, const Task* task = nullptr);
  void close(); // failed_precondition when a tensor is missing

private:
  std::string path_;
  std::vector<TensorSpec> order_;
  size_t next_ = 0;
  std::unique_ptr<FileWriter> file_;
};

// The weights of a model in a folder: <base>.safetensors, or <base>-00001-of-0000N.safetensors with
// <base>.safetensors.index.json when they are larger than max_bytes (a single larger tensor gets a
// file of its own). Several processes may write one folder: each gives the specs of all tensors and writes the files of its
// own; the first, 0, writes the index.
class WeightWriter {
public:
  // max_bytes <= 0: one file a writer.
  WeightWriter(std::string folder, const std::string& base, std::vector<TensorSpec> specs,
               int64_t max_bytes, Metadata metadata = {}, int64_t writer = 0);

  const std::vector<TensorSpec>& order() const { return order_; } // of this writer, over its files
  void write(std::string_view name, const Tensor& tensor, const Task* task = nullptr);
  void close();
  std::vector<std::string> files() const; // names of those that this writer makes

private:
  void deal(std::vector<TensorSpec> specs, int64_t max_bytes);
  void open_next();
  bool has_index() const { return writer_ == 0 && shards_.size() > 1; }
  void write_index() const;

  struct Shard {
    std::string name;
    std::vector<TensorSpec> specs;
    int64_t writer = 0;
  };

  std::string folder_;
  std::string base_;
  Metadata metadata_;
  int64_t writer_;
  std::vector<TensorSpec> order_;
  std::vector<Shard> shards_; // of all writers
  int64_t total_bytes_ = 0;
  size_t written_ = 0;    // tensors so far
  size_t next_shard_ = 0; // the one to open next, if it is this writer's
  size_t shard_left_ = 0; // tensors the open file still waits for
  std::unique_ptr<SafetensorsWriter> file_;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Everything at once, for arrays that are in memory anyway.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const Metadata& metadata = {});

} // namespace dllm::ckpt
