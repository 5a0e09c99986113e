#pragma once
// SHA-256 (FIPS 180-4): names of things by their content. About 250 MB/s; not for passwords.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dllm {

class Sha256 {
public:
  using Digest = std::array<uint8_t, 32>;

  void add(const void* data, size_t size);
  void add(std::string_view text) { add(text.data(), text.size()); }
  // The hash of all that was added. The object is used up.
  Digest finish();

private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> open_; // bytes that do not fill a block yet
  uint64_t size_ = 0;            // of everything added
};

Sha256::Digest sha256(std::string_view text);
std::string hex(const Sha256::Digest& digest); // 64 lower-case digits

} // namespace dllm
