#pragma once
// The footer of a Parquet file lists the columns and the offsets of their parts.
// https://parquet.apache.org/docs/file-format

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

// A stored column, which is a leaf of the tree of columns.
struct Leaf {
  std::string path;  // "text", "messages.list.element.role"
  std::string top;   // first name of the path
  std::string name;  // last name of the path
  std::string group; // the path without the last name
  Physical type = Physical::bytes;
  int number = 0; // index of the column in the file
  int max_definition = 0, max_repetition = 0;
  // The smallest definition level at which an item of the innermost list exists; 0 without a list.
  int item_definition = 0;
};

// The part of a column in a row group.
struct Chunk {
  int64_t begin = 0, size = 0; // bytes of the file
  int64_t values = 0;          // number of values, with nulls
  int64_t codec = 0;
};

struct RowGroup {
  int64_t number = 0; // from 0
  int64_t rows = 0;
  std::vector<Chunk> chunks; // one per column that the caller requested
};

class Footer {
public:
  // Reads the footer. Fails with data_loss naming file and fault, and with unimplemented for
  // encrypted files.
  Footer(const InputFile& file, const Task* task);

  const std::vector<Leaf>& leaves() const { return leaves_; }
  // Visits each row group with the chunks of `columns`, whose offsets are checked against the
  // size of the file. It decodes one row group at a time.
  void each_row_group(std::span<const Leaf* const> columns,
                      const std::function<void(const RowGroup&)>& visit) const;

private:
  void read_schema(size_t at);
  RowGroup read_row_group(ThriftReader& in, int64_t number,
                          std::span<const Leaf* const> columns) const;

  std::string where_; // name of the file in errors
  const Task* task_;
  int64_t data_end_ = 0; // offset of the footer in the file
  Bytes bytes_;          // the footer
  std::vector<Leaf> leaves_;
  size_t groups_at_ = 0; // offset of the list of row groups in bytes_
  int64_t groups_ = 0;   // number of row groups
};

} // namespace dllm::text::parquet
