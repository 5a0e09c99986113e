#pragma once
// Thrift's compact protocol, in which Parquet writes its footer and the headers of its pages. The bytes are walked over;
// every number of them may be wrong.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::text::parquet {

class ThriftReader {
public:
  struct Field {
    int64_t id = 0;
    int type = 0;
  };
  struct List {
    int64_t count = 0; // at most the bytes that are left
    Field item;
  };

  // where: names the bytes in errors (data_loss); it outlives the reader.
  ThriftReader(std::string_view bytes, const std::string& where, const Task* task, size_t at = 0)
      : bytes_(bytes), where_(where), task_(task), at_(at) {}

  size_t at() const { return at_; }
  // The error came from the end of the bytes: with more of them it may be read.
  bool ran_out() const { return ran_out_; }

  // The next field of a struct; nothing at its end. last: the id of the field before, 0 at first. Each value is taken with
  // one of the calls below.
  std::optional<Field> field(int64_t& last);
  int64_t integer(const Field& field, int64_t least, int64_t most);
  bool boolean(const Field& field);
  std::string_view binary(const Field& field);
  List list(const Field& field);
  void structure(const Field& field); // its fields come next
  void skip(const Field& field, int depth = 0);

private:
  [[noreturn]] void bad(const char* what);
  void need(const Field& field, int type, const char* what);
  uint8_t byte();
  uint64_t varint();

  std::string_view bytes_;
  const std::string& where_;
  const Task* task_;
  size_t at_;
  int64_t steps_ = 0;
  bool ran_out_ = false;
};

} // namespace dllm::text::parquet
