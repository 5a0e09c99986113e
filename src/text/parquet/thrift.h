#pragma once
// A ThriftReader walks over bytes in Thrift's compact protocol, in which Parquet writes its footer
// and page headers. It checks every number, because the bytes may be damaged.
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
    int64_t count = 0; // at most the number of bytes that are left
    Field item;
  };

  // where: names the bytes in errors (data_loss), and outlives the reader.
  ThriftReader(std::string_view bytes, const std::string& where, const Task* task, size_t at = 0)
      : bytes_(bytes), where_(where), task_(task), at_(at) {}

  size_t at() const { return at_; }
  // Returns true when the last error was the end of the bytes, so that more bytes may help.
  bool ran_out() const { return ran_out_; }

  // Returns the next field of a struct, or nothing at its end. last: the id of the field before, at
  // first 0. After field() the caller reads the value with one of the calls below.
  std::optional<Field> field(int64_t& last);
  int64_t integer(const Field& field, int64_t least, int64_t most);
  bool boolean(const Field& field);
  std::string_view binary(const Field& field);
  List list(const Field& field);
  void structure(const Field& field); // enters a struct; field() then reads its fields
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
