#pragma once
// Hand-made ZIP files with stored entries, right and wrong.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dllm::test {

struct ZipOptions {
  bool zip64 = false; // sizes, offsets and the directory's place in zip64 records
  uint16_t method = 0, flags = 0;
};

template <class T> void put_number(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string zip_bytes(const std::vector<std::pair<std::string, std::string>>& entries,
                             const ZipOptions& options = {}) {
  constexpr uint32_t kFull = 0xFFFFFFFF;
  std::string file, directory;
  for (const auto& entry : entries) {
    const std::string& name = entry.first; // clang 14 captures no structured bindings
    const std::string& content = entry.second;
    const auto size = static_cast<uint32_t>(content.size());
    const auto header = static_cast<uint32_t>(file.size());
    const auto fields = [&](std::string& to) { // version to size of the name
      put_number<uint16_t>(to, 20);
      put_number<uint16_t>(to, options.flags);
      put_number<uint16_t>(to, options.method);
      put_number<uint32_t>(to, 0); // time, date
      put_number<uint32_t>(to, 0); // checksum: left out
      put_number<uint32_t>(to, options.zip64 ? kFull : size);
      put_number<uint32_t>(to, options.zip64 ? kFull : size);
      put_number<uint16_t>(to, static_cast<uint16_t>(name.size()));
    };
    file += "PK\x03\x04";
    fields(file);
    put_number<uint16_t>(file, 0);
    file += name + content;
    directory += "PK\x01\x02";
    put_number<uint16_t>(directory, 20);
    fields(directory);
    put_number<uint16_t>(directory, options.zip64 ? 28 : 0);
    directory.append(10, '\0'); // comment, disk, attributes
    put_number<uint32_t>(directory, options.zip64 ? kFull : header);
    directory += name;
    if (!options.zip64) continue;
    put_number<uint16_t>(directory, 1);
    put_number<uint16_t>(directory, 24);
    for (uint64_t value : {uint64_t{size}, uint64_t{size}, uint64_t{header}})
      put_number(directory, value);
  }
  const auto begin = static_cast<uint32_t>(file.size());
  const auto size = static_cast<uint32_t>(directory.size());
  file += directory;
  if (options.zip64) {
    const uint64_t end = file.size();
    file += "PK\x06\x06";
    put_number<uint64_t>(file, 44);
    file.append(12, '\0'); // versions and disks
    for (uint64_t value :
         {uint64_t{entries.size()}, uint64_t{entries.size()}, uint64_t{size}, uint64_t{begin}})
      put_number(file, value);
    file += "PK\x06\x07";
    put_number<uint32_t>(file, 0);
    put_number(file, end);
    put_number<uint32_t>(file, 1);
  }
  file += "PK\x05\x06";
  put_number<uint32_t>(file, 0);
  for (int i = 0; i < 2; ++i)
    put_number<uint16_t>(file, options.zip64 ? 0xFFFF : static_cast<uint16_t>(entries.size()));
  put_number<uint32_t>(file, options.zip64 ? kFull : size);
  put_number<uint32_t>(file, options.zip64 ? kFull : begin);
  put_number<uint16_t>(file, 0);
  return file;
}

} // namespace dllm::test
