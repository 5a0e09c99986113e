#pragma once
// A 64-bit hash of bytes: which split a row falls in, and the checksum of token files. The same
// everywhere and for ever (little-endian words); not for security.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dllm::text {

inline uint64_t mix64(uint64_t x) { // finalizer of SplitMix64 (Steele et al. 2014)
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The hash of `size` bytes that come in pieces. Every piece but the last is a multiple of 8 bytes.
class HashStream {
public:
  explicit HashStream(size_t size, uint64_t seed = 0) : h_(mix64(seed + size + 0x9E3779B97F4A7C15u)) {}

  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (; size >= 8; bytes += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, bytes, 8);
      h_ = (h_ ^ word) * 0x9E3779B97F4A7C15u;
      h_ ^= h_ >> 29;
    }
    for (size_t i = 0; i < size; ++i) rest_ |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  uint64_t finish() const { return mix64(h_ ^ rest_); }

private:
  uint64_t h_;
  uint64_t rest_ = 0;
};

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0) {
  HashStream hash(size, seed);
  hash.add(data, size);
  return hash.finish();
}

} // namespace dllm::text
