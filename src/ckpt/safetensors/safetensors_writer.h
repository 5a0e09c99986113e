#pragma once
// These classes write safetensors files. They write the header first, then one tensor at a time, so
// no second copy of a model is in memory. The same tensors, metadata and limit give the same bytes.

#include "base/files.h"
#include "ckpt/safetensors/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::ckpt {

// Writes one file. The tensors come in the order of order(). close() makes the file appear under
// its name, durable and complete. Before close(), and after a failure, only `path`.partial exists,
// which the destructor removes.
class SafetensorsWriter {
public:
  SafetensorsWriter(std::string path, std::vector<TensorSpec> specs, const Metadata& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  const std::vector<TensorSpec>& order() const { return order_; }
  // Writes the next tensor of order(). Fails with invalid_argument for another name, type or shape.
  void write(std::string_view name, const Tensor& tensor, const Task* task = nullptr);
  // Writes the next bytes of the next tensor of order(), which may come in several parts. Fails
  // with invalid_argument for another name, or for more bytes than the tensor has.
  void write_part(std::string_view name, std::span<const std::byte> bytes,
                  const Task* task = nullptr);
  void close(); // fails with failed_precondition when a tensor is missing

private:
  const TensorSpec& next_spec(std::string_view name) const;

  std::string path_;
  std::vector<TensorSpec> order_;
  size_t next_ = 0;
  int64_t part_bytes_ = 0; // of the next tensor, already written
  std::unique_ptr<FileWriter> file_;
};

// Writes the weights of a model into a folder: <base>.safetensors, or
// <base>-00001-of-0000N.safetensors with <base>.safetensors.index.json if there is more than one
// file. A tensor larger than max_bytes gets its own file. Several processes may write one folder:
// each passes the specs of all tensors and writes its own files, and process 0 writes the index.
class WeightWriter {
public:
  // max_bytes: most bytes of the tensors in a file; 0 or less means one file per writer. writer:
  // index of this process.
  WeightWriter(std::string folder, const std::string& base, std::vector<TensorSpec> specs,
               int64_t max_bytes, Metadata metadata = {}, int64_t writer = 0);

  // Returns the tensors of this writer in the order of its files.
  const std::vector<TensorSpec>& order() const { return order_; }
  void write(std::string_view name, const Tensor& tensor, const Task* task = nullptr);
  void close();
  std::vector<std::string> files() const; // names of the files that this writer writes

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
  std::vector<Shard> shards_; // files of all writers
  int64_t total_bytes_ = 0;   // bytes of the tensors of all writers
  size_t written_ = 0;        // tensors written so far
  size_t next_shard_ = 0;     // index from which to search the next file of this writer
  size_t shard_left_ = 0;     // tensors that are missing in the open file
  std::unique_ptr<SafetensorsWriter> file_;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Writes one file of tensors that are all in memory.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const Metadata& metadata = {});

} // namespace dllm::ckpt
