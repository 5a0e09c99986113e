#include "ckpt/torch/zip.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>

namespace dllm::ckpt {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr uint32_t kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr int64_t kLocalSize = 30, kEntrySize = 46, kEndSize = 22;
constexpr int64_t kEnd64Size = 56, kLocator64Size = 20;
constexpr uint32_t kInZip64 = 0xFFFFFFFF;             // the number is stored in the zip64 field
constexpr int64_t kMaxDirectory = int64_t{256} << 20; // enough for a million tensors

// Reads a little-endian number. REQUIRES: at + sizeof(T) <= bytes.size().
template <class T> T number_at(const Bytes& bytes, int64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct DirectoryPlace {
  uint64_t begin = 0, size = 0, entries = 0;
};

class ZipReader {
public:
  ZipReader(const Content& content, const std::string& file) : content_(content), file_(file) {}

  // Searches the end record, after which only a comment of at most 64 KiB follows.
  DirectoryPlace find_directory() const {
    const int64_t tail_size = std::min<int64_t>(content_.size(), kEndSize + 0xFFFF);
    const int64_t tail_begin = content_.size() - tail_size;
    const Bytes tail = content_.read(tail_begin, tail_size);
    for (int64_t at = tail_size - kEndSize; at >= 0; --at) {
      if (number_at<uint32_t>(tail, at) != kEndMark) continue;
      if (at + kEndSize + number_at<uint16_t>(tail, at + 20) > tail_size) continue;
      DirectoryPlace place{number_at<uint32_t>(tail, at + 16), number_at<uint32_t>(tail, at + 12),
                           number_at<uint16_t>(tail, at + 10)};
      if (place.begin == kInZip64 || place.size == kInZip64 || place.entries == 0xFFFF)
        place = find_directory64(tail_begin + at);
      return place;
    }
    fail_with_hint("is the download complete?", Code::data_loss,
                   "{}: a ZIP file ends with its directory, found none", file_);
  }

  Bytes read(uint64_t begin, uint64_t size, const char* what) const {
    const auto all = static_cast<uint64_t>(content_.size());
    if (begin > all || size > all - begin) {
      fail_with_hint("is the download complete?", Code::data_loss,
                     "{}: {} wants {} bytes at byte {}, found {} bytes", file_, what, size, begin,
                     all);
    }
    return content_.read(static_cast<int64_t>(begin), static_cast<int64_t>(size));
  }

  // Returns the byte at which the content of an entry begins. It comes after a local header, whose
  // fields may be longer than the fields of the directory.
  int64_t data_begin(const std::string& name, uint64_t header) const {
    const Bytes local = read(header, kLocalSize, "the header of an entry");
    if (number_at<uint32_t>(local, 0) != kLocalMark)
      fail(Code::data_loss, "{}: expected the header of entry {} at byte {}, found other bytes",
           file_, name, header);
    return static_cast<int64_t>(header) + kLocalSize + number_at<uint16_t>(local, 26) +
           number_at<uint16_t>(local, 28);
  }

private:
  DirectoryPlace find_directory64(int64_t end_record) const {
    if (end_record < kLocator64Size)
      fail(Code::data_loss, "{}: the zip64 locator is missing", file_);
    const Bytes locator = read(static_cast<uint64_t>(end_record - kLocator64Size), kLocator64Size,
                               "the zip64 locator");
    if (number_at<uint32_t>(locator, 0) != kLocator64Mark)
      fail(Code::data_loss, "{}: the zip64 locator is missing", file_);
    const Bytes end =
        read(number_at<uint64_t>(locator, 8), kEnd64Size, "the zip64 end of the directory");
    if (number_at<uint32_t>(end, 0) != kEnd64Mark)
      fail(Code::data_loss, "{}: the zip64 end of the directory is missing", file_);
    return {number_at<uint64_t>(end, 48), number_at<uint64_t>(end, 40),
            number_at<uint64_t>(end, 32)};
  }

  const Content& content_;
  const std::string& file_;
};

// The fields of a directory record that are used.
struct DirectoryRecord {
  std::string name;
  uint64_t stored = 0, size = 0, header = 0;
  uint16_t flags = 0, method = 0;
};

// Reads the sizes and the offset that do not fit 32 bits. Extra field 1 has them in the order size,
// stored size, offset.
void read_zip64_field(const Bytes& extra, DirectoryRecord& record, const std::string& file) {
  const auto size = static_cast<int64_t>(extra.size());
  for (int64_t at = 0; at + 4 <= size;) {
    const uint16_t id = number_at<uint16_t>(extra, at), length = number_at<uint16_t>(extra, at + 2);
    at += 4;
    if (at + length > size) break;
    int64_t next = at;
    at += length;
    if (id != 1) continue;
    for (uint64_t* value : {&record.size, &record.stored, &record.header}) {
      if (*value != kInZip64) continue;
      if (next + 8 > at) break;
      *value = number_at<uint64_t>(extra, next);
      next += 8;
    }
    return;
  }
  fail(Code::data_loss, "{}: entry {} has no zip64 sizes", file, record.name);
}

void check_record(const DirectoryRecord& record, const std::string& file) {
  if ((record.flags & 1) != 0)
    fail(Code::unimplemented, "{}: entry {} is encrypted", file, record.name);
  if (record.method != 0 || record.stored != record.size) {
    fail_with_hint("load it with torch.load and save it with torch.save, which stores entries",
                   Code::unimplemented, "{}: entry {} is compressed (method {})", file, record.name,
                   record.method);
  }
}

} // namespace

ZipDirectory::ZipDirectory(const Content& content, const std::string& file) {
  const ZipReader reader(content, file);
  const DirectoryPlace place = reader.find_directory();
  if (place.size > static_cast<uint64_t>(kMaxDirectory)) {
    fail(Code::data_loss, "{}: the directory has {} bytes, at most {} are read", file, place.size,
         kMaxDirectory);
  }
  const Bytes bytes = reader.read(place.begin, place.size, "the directory");
  const auto size = static_cast<int64_t>(bytes.size());
  int64_t at = 0;
  for (uint64_t i = 0; i < place.entries; ++i) {
    if (at + kEntrySize > size || number_at<uint32_t>(bytes, at) != kEntryMark)
      fail(Code::data_loss, "{}: the directory ends after {} of {} entries", file, i,
           place.entries);
    const int64_t name_size = number_at<uint16_t>(bytes, at + 28);
    const int64_t extra_size = number_at<uint16_t>(bytes, at + 30);
    const int64_t next =
        at + kEntrySize + name_size + extra_size + number_at<uint16_t>(bytes, at + 32);
    if (next > size) fail(Code::data_loss, "{}: entry {} of the directory is cut off", file, i);
    DirectoryRecord record;
    record.name =
        bytes.text().substr(static_cast<size_t>(at + kEntrySize), static_cast<size_t>(name_size));
    record.flags = number_at<uint16_t>(bytes, at + 8);
    record.method = number_at<uint16_t>(bytes, at + 10);
    record.stored = number_at<uint32_t>(bytes, at + 20);
    record.size = number_at<uint32_t>(bytes, at + 24);
    record.header = number_at<uint32_t>(bytes, at + 42);
    if (record.size == kInZip64 || record.stored == kInZip64 || record.header == kInZip64) {
      read_zip64_field(bytes.part(static_cast<size_t>(at + kEntrySize + name_size),
                                  static_cast<size_t>(extra_size)),
                       record, file);
    }
    const uint32_t checksum = number_at<uint32_t>(bytes, at + 16);
    at = next;
    if (record.name.ends_with('/')) continue;
    check_record(record, file);
    ZipEntry entry{reader.data_begin(record.name, record.header), static_cast<int64_t>(record.size),
                   checksum};
    const auto all = static_cast<uint64_t>(content.size());
    if (static_cast<uint64_t>(entry.begin) > all ||
        record.size > all - static_cast<uint64_t>(entry.begin)) {
      fail_with_hint("is the download complete?", Code::data_loss,
                     "{}: entry {} wants {} bytes at byte {}, found {} bytes", file, record.name,
                     record.size, entry.begin, all);
    }
    if (!entries_.emplace(record.name, entry).second)
      fail(Code::data_loss, "{}: the directory names {} twice", file, record.name);
  }
}

const ZipEntry* ZipDirectory::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found != entries_.end() ? &found->second : nullptr;
}

bool is_zip(const Content& content) {
  return content.size() >= kEndSize && (number_at<uint32_t>(content.read(0, 4), 0) == kLocalMark ||
                                        number_at<uint32_t>(content.read(0, 4), 0) == kEndMark);
}

} // namespace dllm::ckpt
