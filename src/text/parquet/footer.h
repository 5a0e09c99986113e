#pragma once
// What the end of a Parquet file says: the columns, and where the parts of each lie. https://parquet.apache.org/docs/file-format

#include "base/files.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::text::parquet {

class ThriftReader;

constexpr std::string_view kMagic = "PAR1";
constexpr const char* kCopyHint = "copy or download the file again";

enum class Physical { boolean, i32, i64, i96, f32, f64, bytes, fixed_bytes };

// A column as it is stored: a leaf of the tree of columns.
struct Leaf {
  std::string path;  // "text", "messages.list.element.role"
  std::string top;   // its first name
  std::string name;  // its last name
  std::string group; // the path without the last name
  Physical type = Physical::bytes;
  int number = 0; // in the order of the file
  int max_definition = 0, max_repetition = 0;
  // Definition level from which an item of the innermost list is there; 0 without a list.
  int item_definition = 0;
};

// The part of a column in a row group.
struct Chunk {
  int64_t begin = 0, size = 0; // bytes of the file
  int64_t values = 0;          // with nulls
  int64_t codec = 0;
};

struct RowGroup {
  int64_t number = 0; // from 0
  int64_t rows = 0;
  std::vector<Chunk> chunks; // of the columns that were asked for
};

class Footer {
public:
  // data_loss naming the file and the fault, unimplemented for encrypted files.
  Footer(const InputFile& file, const Task* task);

  const std::vector<Leaf>& leaves() const { return leaves_; }
  // Each row group with the places of these columns, checked against the file. They are read from the footer one at a time.
  void each_row_group(std::span<const Leaf* const> columns,
                      const std::function<void(const RowGroup&)>& visit) const;

private:
  void read_schema(size_t at);
  RowGroup read_row_group(ThriftReader& in, int64_t number,
                          std::span<const Leaf* const> columns) const;

  std::string where_; // the file
  const Task* task_;
  int64_t data_end_ = 0; // where the footer begins
  Bytes bytes_;
  std::vector<Leaf> leaves_;
  size_t groups_at_ = 0; // of the list of row groups in bytes_
  int64_t groups_ = 0;
};

} // namespace dllm::text::parquet
