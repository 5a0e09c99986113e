#pragma once
// Turns a struct that encodes one block into a WeightFormat; all ggml formats use this header. The
// struct has:
//
//   kBlock, kBytes       numbers and bytes of a block
//   kHalves              byte offsets of the block's f16 numbers
//   kSingles             byte offsets of its f32 numbers; a format without them may leave it out
//   kBitsandbytes        WeightFormat::bitsandbytes; left out by most formats
//   encode(x, block)     stores kBlock numbers in kBytes bytes
//   decode(block, x)     the inverse. It rounds products in the order of the PyPI package gguf,
//                        so results are equal bit for bit.
//
// In a panel block byte b of lane l is at 16 b + l, so one load reads neighbouring rows at one k.
// The bytes of an f16 or f32 stay together: the f16 numbers of 16 lanes are a row of 32 bytes.

#include "tensor/weight_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dllm::formats {

inline float load_half(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return f16_to_f32(bits);
}

// Stores `value` rounded to f16 and returns the rounded number.
inline float store_half(float value, uint8_t* to) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(to, &bits, sizeof bits);
  return f16_to_f32(bits);
}

template <class B> struct BlockFunctions {
  static double quantize(const float* row, int64_t k, std::byte* to, float*) {
    double error = 0;
    float stored[B::kBlock];
    auto* block = reinterpret_cast<uint8_t*>(to);
    for (int64_t begin = 0; begin < k; begin += B::kBlock, block += B::kBytes) {
      B::encode(row + begin, block);
      B::decode(block, stored);
      double top = 0, worst = 0;
      for (int64_t i = 0; i < B::kBlock; ++i) {
        const double wanted = row[begin + i];
        top = std::max(top, std::abs(wanted));
        worst = std::max(worst, std::abs(stored[i] - wanted));
      }
      if (top > 0) error = std::max(error, worst / top);
    }
    return error;
  }

  static void dequantize(const std::byte* row, const float*, int64_t k, float* to) {
    const auto* block = reinterpret_cast<const uint8_t*>(row);
    for (int64_t begin = 0; begin < k; begin += B::kBlock, block += B::kBytes)
      B::decode(block, to + begin);
  }

  // Returns the offset in the panel block of byte `at` of a lane's block.
  static int64_t panel_place(int64_t at, int64_t lane) {
    for (const int64_t half : B::kHalves) {
      if (at == half || at == half + 1) return half * kPanelRows + 2 * lane + (at - half);
    }
    if constexpr (requires { B::kSingles; }) {
      for (const int64_t single : B::kSingles) {
        if (at >= single && at < single + 4) return single * kPanelRows + 4 * lane + (at - single);
      }
    }
    return at * kPanelRows + lane;
  }

  static void to_lane(const std::byte* block, int64_t lane, std::byte* panel_block) {
    for (int64_t at = 0; at < B::kBytes; ++at) panel_block[panel_place(at, lane)] = block[at];
  }
  static void from_lane(const std::byte* panel_block, int64_t lane, std::byte* block) {
    for (int64_t at = 0; at < B::kBytes; ++at) block[at] = panel_block[panel_place(at, lane)];
  }

  // Most blocks have a scale in f16.
  static constexpr float largest() {
    if constexpr (requires { B::kLargest; })
      return B::kLargest;
    else
      return 65504;
  }
  static constexpr const float (*bitsandbytes())[16] {
    if constexpr (requires { B::kBitsandbytes; })
      return B::kBitsandbytes;
    else
      return nullptr;
  }
  static constexpr WeightFormat format(const char* name, const char* text) {
    return {.name = name,
            .text = text,
            .element = DType::u8,
            .block = B::kBlock,
            .block_bytes = B::kBytes,
            .arithmetics = kArithmeticF32 | kArithmeticBf16,
            .quantize = quantize,
            .dequantize = dequantize,
            .to_lane = to_lane,
            .from_lane = from_lane,
            .largest = largest(),
            .bitsandbytes = bitsandbytes()};
  }
};

// --- blocks of 32 numbers of 4 bits: byte i stores number i in its low half and number 16 + i in
// its high half ---

inline int nibble(const uint8_t* packed, int i) {
  return i < 16 ? packed[i] & 15 : packed[i - 16] >> 4;
}

inline void store_nibbles(const uint8_t* levels, uint8_t* packed) {
  for (int i = 0; i < 16; ++i)
    packed[i] = static_cast<uint8_t>((levels[i] & 15) | (levels[i + 16] & 15) << 4);
}

// Returns 16 if the fifth bit of number i is set, else 0. Bit i of the 32-bit word is for number i.
inline int fifth_bit(const uint8_t* word, int i) {
  return (word[i / 8] >> (i % 8) & 1) << 4;
}

inline void store_fifth_bits(const uint8_t* levels, uint8_t* word) {
  std::memset(word, 0, 4);
  for (int i = 0; i < 32; ++i)
    word[i / 8] = static_cast<uint8_t>(word[i / 8] | (levels[i] >> 4 & 1) << (i % 8));
}

} // namespace dllm::formats
