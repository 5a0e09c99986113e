#pragma once
// Computes SHA-256 (FIPS 180-4), which names data by its content. Speed: about 250 MB/s. Do not use
// it for passwords.

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
  // Returns the hash of all added bytes. The object must not be used afterwards.
  Digest finish();

private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> open_; // bytes that do not fill a block yet
  uint64_t size_ = 0;            // number of added bytes
};

Sha256::Digest sha256(std::string_view text);
std::string hex(const Sha256::Digest& digest); // 64 lower-case digits

} // namespace dllm
