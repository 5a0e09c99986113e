// Panels of block formats: 16 rows x one block are a panel block, [panel][block of k][panel block].

#include "base/parallel.h"
#include "cpu/gemm/pack.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace dllm::cpu {
namespace {

// A format whose panels are [k][16] elements has no functions of its own.
void element_to_lane(const WeightFormat& format, const std::byte* block, int64_t lane,
                     std::byte* panel_block) {
  if (format.to_lane != nullptr) return format.to_lane(block, lane, panel_block);
  std::memcpy(panel_block + lane * format.block_bytes, block,
              static_cast<size_t>(format.block_bytes));
}

void element_from_lane(const WeightFormat& format, const std::byte* panel_block, int64_t lane,
                       std::byte* block) {
  if (format.from_lane != nullptr) return format.from_lane(panel_block, lane, block);
  std::memcpy(block, panel_block + lane * format.block_bytes,
              static_cast<size_t>(format.block_bytes));
}

// Calls f(panel) for all of them, some a chunk.
template <class F>
void each_panel(int64_t panels, int64_t panel_bytes, const Workers& pool, const F& f) {
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, panel_bytes));
  parallel(pool, (panels + step - 1) / step, [&](int64_t chunk) {
    for (int64_t p = chunk * step; p < std::min(panels, (chunk + 1) * step); ++p) f(p);
  });
}

} // namespace

int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k) {
  return panel_count(n) * kPanel * format.row_bytes(k);
}

void pack(const WeightFormat& format, const void* source, int64_t n, int64_t k, void* destination,
          const Workers& pool) {
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(destination);
  const int64_t row = format.row_bytes(k), blocks = k / format.block, size = format.block_bytes;
  each_panel(panel_count(n), kPanel * row, pool, [&](int64_t p) {
    std::byte* panel = to + p * kPanel * row;
    const int64_t rows = std::min(kPanel, n - p * kPanel);
    if (rows < kPanel) std::memset(panel, 0, static_cast<size_t>(kPanel * row));
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t lane = 0; lane < rows; ++lane)
        element_to_lane(format, from + (p * kPanel + lane) * row + b * size, lane,
                        panel + b * kPanel * size);
    }
  });
}

void unpack(const WeightFormat& format, const void* packed, int64_t n, int64_t k, void* destination,
            const Workers& pool) {
  const auto* from = static_cast<const std::byte*>(packed);
  auto* to = static_cast<std::byte*>(destination);
  const int64_t row = format.row_bytes(k), blocks = k / format.block, size = format.block_bytes;
  each_panel(panel_count(n), kPanel * row, pool, [&](int64_t p) {
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t lane = 0; lane < std::min(kPanel, n - p * kPanel); ++lane)
        element_from_lane(format, from + p * kPanel * row + b * kPanel * size, lane,
                          to + (p * kPanel + lane) * row + b * size);
    }
  });
}

void packed_row(const WeightFormat& format, const void* packed, int64_t k, int64_t row, float* to) {
  constexpr int64_t kLargestBlock = 512; // bytes
  std::byte block[kLargestBlock];
  const int64_t size = format.block_bytes;
  const std::byte* panel =
      static_cast<const std::byte*>(packed) + row / kPanel * kPanel * format.row_bytes(k);
  for (int64_t b = 0; b < k / format.block; ++b) {
    element_from_lane(format, panel + b * kPanel * size, row % kPanel, block);
    format.dequantize(block, 1.0f, format.block, to + b * format.block);
  }
}

void pack_dequantized(const WeightFormat& format, const void* packed, int64_t n, int64_t k,
                      float* destination, const Workers& pool) {
  each_panel(panel_count(n), kPanel * k * 4, pool, [&](int64_t p) {
    std::vector<float> numbers(static_cast<size_t>(panel_count(k) * kPanel), 0.0f);
    for (int64_t row = p * kPanel; row < std::min(n, (p + 1) * kPanel); ++row) {
      packed_row(format, packed, k, row, numbers.data());
      for (int64_t q = 0; q < panel_count(k); ++q)
        std::copy_n(numbers.data() + q * kPanel, kPanel, destination + (q * n + row) * kPanel);
    }
  });
}

} // namespace dllm::cpu
