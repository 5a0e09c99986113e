#pragma once
// A ZipDirectory reads the directory of a ZIP file whose entries are stored without compression, as
// torch.save writes them. Format: APPNOTE.TXT of PKWARE, 4.3 and 4.5.3 (zip64).

#include "base/files.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dllm::ckpt {

struct ZipEntry {
  int64_t begin = 0; // byte of the file at which the content begins
  int64_t size = 0;
  uint32_t checksum = 0; // CRC-32; 0 if the writer left it out
};

// The entries of a ZIP file, without folders. The constructor checks that every entry is inside the
// file. Fails with data_loss for a damaged file, with unimplemented for compressed or encrypted
// entries.
class ZipDirectory {
public:
  ZipDirectory(const Content& content, const std::string& file);

  const std::map<std::string, ZipEntry, std::less<>>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const; // null if there is no such entry

private:
  std::map<std::string, ZipEntry, std::less<>> entries_;
};

// Returns true if the file begins like a ZIP file.
bool is_zip(const Content& content);

} // namespace dllm::ckpt
