#pragma once
// The directory of a ZIP file whose entries are stored, not compressed: what torch.save writes. APPNOTE.TXT of PKWARE, 4.3
// and 4.5.3 (zip64).

#include "base/files.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dllm::ckpt {

struct ZipEntry {
  int64_t begin = 0; // of its bytes in the file
  int64_t size = 0;
  uint32_t checksum = 0; // CRC-32; 0 also where the writer left it out
};

// Checked whole when it is opened: every entry lies inside the file. data_loss for a damaged file, unimplemented for
// compressed or encrypted entries. Folders are left out.
class ZipDirectory {
public:
  ZipDirectory(const Content& content, const std::string& file);

  const std::map<std::string, ZipEntry, std::less<>>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const; // null: there is none

private:
  std::map<std::string, ZipEntry, std::less<>> entries_;
};

// Whether the file begins as a ZIP file does.
bool is_zip(const Content& content);

} // namespace dllm::ckpt
