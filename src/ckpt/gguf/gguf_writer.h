#pragma once
// A GgufWriter writes GGUF version 3. It writes metadata and the table of tensors first, then the
// tensors one after the other, some rows at a time. The same input gives the same bytes.

#include "base/files.h"
#include "ckpt/gguf/gguf.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::ckpt {

// Metadata in the order of the file.
class GgufMetadata {
public:
  void text(const std::string& key, std::string_view value);
  // Fails with out_of_range for a value that does not fit in u32.
  void u32(const std::string& key, int64_t value);
  void f32(const std::string& key, double value);
  void boolean(const std::string& key, bool value);
  void texts(const std::string& key, const std::vector<std::string>& values);
  void integers(const std::string& key, const std::vector<int32_t>& values);
  // Copies a value of another file.
  void copy(const std::string& key, const GgufValue& value);

  int64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

private:
  void begin(const std::string& key, GgufType type);
  void begin_list(const std::string& key, GgufType element, size_t count);

  std::string bytes_;
  int64_t count_ = 0;
};

struct GgufTensorSpec {
  std::string name;
  const WeightFormat* format; // a format for which ggml has a type
  Shape shape;                // row-major
  int64_t bytes() const { return weight_bytes(*format, shape); }
};

// Writes one file. close() makes the file appear under its name, durable and complete. Before
// close(), and after a failure, only `path`.partial exists, which the destructor removes.
class GgufWriter {
public:
  GgufWriter(std::string path, const GgufMetadata& metadata, std::vector<GgufTensorSpec> tensors);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // Writes the next bytes of the tensors, which come in their order. A tensor may come in pieces.
  void write(const void* data, int64_t size, const Task* task = nullptr);
  void close(); // fails with failed_precondition when bytes are missing
  int64_t file_bytes() const { return written_; }

private:
  void pad();

  std::string path_;
  std::vector<GgufTensorSpec> tensors_;
  size_t next_ = 0;  // index of the tensor that is being written
  int64_t left_ = 0; // bytes of this tensor that are still missing
  int64_t written_ = 0;
  std::unique_ptr<FileWriter> file_;
};

} // namespace dllm::ckpt
