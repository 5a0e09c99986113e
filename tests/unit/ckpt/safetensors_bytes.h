#pragma once
// Hand-made safetensors bytes, right and wrong.

#include "base/files.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace dllm::test {

// shift: begin at an address that is that many bytes off a 16-byte border.
inline Bytes own_bytes(const std::string& content, size_t shift = 0) {
  auto owner = std::make_shared<std::string>();
  owner->resize(content.size() + 32);
  const auto address = reinterpret_cast<uintptr_t>(owner->data());
  const size_t from = (16 - address % 16) % 16 + shift;
  std::memcpy(owner->data() + from, content.data(), content.size());
  return {owner->data() + from, content.size(), owner};
}

inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), sizeof length);
  return text + header + data;
}

} // namespace dllm::test
