#pragma once
// Parquet files made by hand, also such that no writer makes: a column `text`, and one row group of
// pages that are given.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::test {

// Writes Thrift's compact protocol, as much of it as a footer needs.
class Thrift {
public:
  Thrift& i(int id, int64_t value, int type = 5) {
    head(id, type);
    return varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  Thrift& s(int id, std::string_view value) {
    head(id, 8);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Thrift& in(int id, const Thrift& value) {
    head(id, 12);
    bytes += value.done();
    return *this;
  }
  Thrift& list(int id, const std::vector<Thrift>& items) {
    head(id, 9);
    bytes += static_cast<char>(0xF0 | 12);
    varint(items.size());
    for (const Thrift& item : items) bytes += item.done();
    return *this;
  }
  std::string done() const { return bytes + '\0'; }

private:
  void head(int id, int type) {
    bytes += static_cast<char>((id - last_) << 4 | type);
    last_ = id;
  }
  Thrift& varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
    bytes += static_cast<char>(value);
    return *this;
  }
  std::string bytes;
  int last_ = 0;
};

struct ParquetColumn {
  std::string pages; // headers and bodies
  int64_t values = 0;
  int64_t codec = 0;
  int64_t physical = 6;          // BYTE_ARRAY
  int64_t repetition = 0;        // required
  int64_t offset = 4, size = -1; // -1: of the pages
};

// A page of version 1 or a dictionary (kind 5 or 7 is its header's field).
inline std::string parquet_page(std::string_view body, int64_t values, int64_t encoding = 0,
                                int64_t type = 0, int64_t size = -1) {
  const int field = type == 2 ? 7 : 5;
  Thrift inner;
  inner.i(1, values).i(2, encoding);
  if (field == 5) inner.i(3, 3).i(4, 3);
  Thrift header;
  header.i(1, type).i(2, size < 0 ? static_cast<int64_t>(body.size()) : size);
  header.i(3, static_cast<int64_t>(body.size())).in(field, inner);
  return header.done() + std::string(body);
}

inline std::string plain_text(std::string_view text) {
  std::string size(4, '\0');
  for (size_t i = 0; i < 4; ++i) size[i] = static_cast<char>(text.size() >> (8 * i));
  return size + std::string(text);
}

inline std::string parquet_file(const ParquetColumn& column, int64_t rows,
                                std::string_view magic = "PAR1") {
  Thrift root, leaf, data, chunk, group, footer;
  root.s(4, "schema").i(5, 1);
  leaf.i(1, column.physical).i(3, column.repetition).s(4, "text");
  const auto size = static_cast<int64_t>(column.pages.size());
  data.i(1, column.physical).i(4, column.codec).i(5, column.values, 6).i(6, size, 6);
  data.i(7, column.size < 0 ? size : column.size, 6).i(9, column.offset, 6);
  chunk.i(2, 4, 6).in(3, data);
  group.list(1, {chunk}).i(2, size, 6).i(3, rows, 6);
  footer.i(1, 1).list(2, {root, leaf}).i(3, rows, 6).list(4, {group});
  const std::string end = footer.done();
  std::string length(4, '\0');
  for (size_t i = 0; i < 4; ++i) length[i] = static_cast<char>(end.size() >> (8 * i));
  return "PAR1" + column.pages + end + length + std::string(magic);
}

} // namespace dllm::test
