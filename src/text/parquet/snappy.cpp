// This file decompresses Snappy's raw format, which is the length, then literal bytes and copies of
// earlier output.
// https://github.com/google/snappy/blob/main/format_description.txt
#include "base/task.h"
#include "text/parquet/codecs.h"

#include <cstring>

namespace dllm::text::parquet {

namespace {

constexpr size_t kUnchecked = size_t{256} << 10; // bytes between two checks of the task

// Reads `size` little-endian bytes. REQUIRES: the bytes exist.
uint32_t little(const char* from, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint32_t>(static_cast<uint8_t>(from[i])) << (8 * i);
  return value;
}

// Reads the length before the data; returns false without a length.
bool read_length(std::string_view& from, uint64_t& length) {
  length = 0;
  for (int shift = 0; shift < 35 && !from.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    length |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Copies bytes of the output. The copy may overlap its own output, which repeats these bytes.
void copy_back(char* to, size_t offset, size_t length) {
  const char* from = to - offset;
  if (offset >= length) {
    std::memcpy(to, from, length);
    return;
  }
  for (size_t i = 0; i < length; ++i) to[i] = from[i];
}

} // namespace

bool decompress_snappy(std::string_view from, char* to, size_t size, const Task* task) {
  uint64_t length;
  if (!read_length(from, length) || length != size) return false;
  size_t made = 0, next_check = 0;
  while (!from.empty()) {
    if (made >= next_check) {
      check_task(task);
      next_check = made + kUnchecked;
    }
    const auto tag = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    size_t count = (tag >> 2) + 1u, offset = 0;
    if ((tag & 3) == 0) { // literal; 61 to 64: the length is in the next 1 to 4 bytes
      const size_t extra = count > 60 ? count - 60 : 0;
      if (extra > from.size()) return false;
      if (extra > 0) count = size_t{little(from.data(), extra)} + 1;
      from.remove_prefix(extra);
      if (count > from.size() || count > size - made) return false;
      std::memcpy(to + made, from.data(), count);
      from.remove_prefix(count);
    } else {
      const size_t width = (tag & 3) == 1 ? 1 : (tag & 3) == 2 ? 2 : 4;
      if (width > from.size()) return false;
      offset = little(from.data(), width);
      from.remove_prefix(width);
      if (width == 1) { // 4 to 11 bytes, up to 2047 back
        count = ((tag >> 2) & 7u) + 4;
        offset |= static_cast<size_t>(tag >> 5) << 8;
      }
      if (offset == 0 || offset > made || count > size - made) return false;
      copy_back(to + made, offset, count);
    }
    made += count;
  }
  return made == size;
}

} // namespace dllm::text::parquet
