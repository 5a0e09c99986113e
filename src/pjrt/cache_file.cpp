#include "pjrt/cache_file.h"

#include "base/sha256.h"

#include <cstring>

namespace dllm::pjrt {
namespace {

constexpr std::string_view kMagic = "dllmexe\n";
constexpr uint64_t kVersion = 1;
constexpr size_t kHashAt = kMagic.size() + 4 + 4 + 8;
constexpr size_t kHeaderBytes = kHashAt + 32;

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

uint64_t number(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

// The lengths are hashed by way of the key's: what follows it is the program.
Sha256::Digest checksum(std::string_view key, std::string_view program) {
  std::string length;
  put(length, key.size(), 8);
  Sha256 hash;
  hash.add(length);
  hash.add(key);
  hash.add(program);
  return hash.finish();
}

} // namespace

std::string cache_file_head(std::string_view key, std::string_view program) {
  std::string head(kMagic);
  put(head, kVersion, 4);
  put(head, key.size(), 4);
  put(head, program.size(), 8);
  for (const uint8_t byte : checksum(key, program)) head += static_cast<char>(byte);
  return head.append(key);
}

std::optional<std::string_view> cached_program(std::string_view file, std::string_view key) {
  if (file.size() < kHeaderBytes || file.substr(0, kMagic.size()) != kMagic) return {};
  if (number(file.substr(kMagic.size(), 4)) != kVersion) return {};
  if (number(file.substr(kMagic.size() + 4, 4)) != key.size()) return {};
  if (file.size() - kHeaderBytes < key.size() || file.substr(kHeaderBytes, key.size()) != key)
    return {};
  const std::string_view program = file.substr(kHeaderBytes + key.size());
  if (number(file.substr(kMagic.size() + 8, 8)) != program.size()) return {};
  const Sha256::Digest found = checksum(key, program);
  if (std::memcmp(file.data() + kHashAt, found.data(), found.size()) != 0) return {};
  return program;
}

} // namespace dllm::pjrt
