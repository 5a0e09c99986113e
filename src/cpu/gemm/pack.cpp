// Packs matrices and blocks of weight formats into panels, and unpacks them.

#include "base/error.h"
#include "base/threads/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/pack_vector.h"
#include "cpu/kernel.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace dllm::cpu {

namespace {

constexpr int64_t kTile = 64; // rows of a transposition that stay in the first-level cache

// Returns the panels of one chunk, about 256 KB, so that the cost of starting a chunk does not
// matter.
int64_t panels_per_chunk(int64_t k, int64_t element) {
  return std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, k * kPanel * element));
}

template <class T>
void pack_panel(const T* source, int64_t stride, int64_t columns, int64_t k, T* panel) {
  int64_t done = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (columns == kPanel) done = pack_columns(source, stride, k, panel);
  }
  if (columns < kPanel) std::fill(panel, panel + k * kPanel, T{});
  for (int64_t k0 = done; k0 < k; k0 += kTile) {
    const int64_t k1 = std::min(k, k0 + kTile);
    for (int64_t j = 0; j < columns; ++j) {
      const T* row = source + j * stride;
      for (int64_t i = k0; i < k1; ++i) panel[i * kPanel + j] = row[i];
    }
  }
}

template <class T>
void pack_panel_transposed(const T* source, int64_t stride, int64_t columns, int64_t k, T* panel) {
  if (columns == kPanel) {
    for (int64_t i = 0; i < k; ++i) {
      std::memcpy(panel + i * kPanel, source + i * stride, kPanel * sizeof(T));
    }
    return;
  }
  for (int64_t i = 0; i < k; ++i) {
    T* end = std::copy_n(source + i * stride, columns, panel + i * kPanel);
    std::fill(end, panel + (i + 1) * kPanel, T{});
  }
}

template <class T>
void pack_typed(bool transposed, const void* source, int64_t stride, int64_t n, int64_t k,
                void* destination, const Workers& pool) {
  const T* from = static_cast<const T*>(source);
  T* to = static_cast<T*>(destination);
  const int64_t panels = panel_count(n);
  const int64_t step = panels_per_chunk(k, sizeof(T));
  int64_t packed = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (transposed) {
      packed = n / kPanel;
      pack_rows(from, stride, k, packed, to, k * kPanel, pool);
    }
  }
  parallel(pool, (panels - packed + step - 1) / step, [&](int64_t chunk) {
    const int64_t first = packed + chunk * step;
    for (int64_t p = first; p < std::min(panels, first + step); ++p) {
      const int64_t columns = std::min(kPanel, n - p * kPanel);
      T* panel = to + p * k * kPanel;
      if (transposed) {
        pack_panel_transposed(from + p * kPanel, stride, columns, k, panel);
      } else {
        pack_panel(from + p * kPanel * stride, stride, columns, k, panel);
      }
    }
  });
}

template <class T>
void unpack_typed(const void* packed, int64_t n, int64_t k, void* destination,
                  const Workers& pool) {
  const T* from = static_cast<const T*>(packed);
  T* to = static_cast<T*>(destination);
  const int64_t step = panels_per_chunk(k, sizeof(T));
  const int64_t columns = step * kPanel;
  parallel(pool, (n + columns - 1) / columns, [&](int64_t chunk) {
    for (int64_t j = chunk * columns; j < std::min(n, (chunk + 1) * columns); ++j) {
      const T* panel = from + j / kPanel * k * kPanel + j % kPanel;
      for (int64_t i = 0; i < k; ++i) to[j * k + i] = panel[i * kPanel];
    }
  });
}

// Calls f with a value of the storage type of `dtype`.
template <class F> void with_storage(DType dtype, const F& f) {
  switch (dtype) {
  case DType::f32: return f(float{});
  case DType::bf16: return f(uint16_t{});
  case DType::i8: return f(uint8_t{});
  default: fail(Code::internal, "[gemm] panels hold f32, bf16 or i8, not {}", dtype_name(dtype));
  }
}

} // namespace

int64_t packed_bytes(int64_t n, int64_t k, DType dtype) {
  return panel_count(n) * kPanel * k * dtype_size(dtype);
}

void pack(DType dtype, const void* source, int64_t stride, int64_t n, int64_t k, void* destination,
          const Workers& pool) {
  with_storage(dtype, [&](auto t) {
    pack_typed<decltype(t)>(false, source, stride, n, k, destination, pool);
  });
}

void pack_transposed(DType dtype, const void* source, int64_t stride, int64_t n, int64_t k,
                     void* destination, const Workers& pool) {
  with_storage(dtype, [&](auto t) {
    pack_typed<decltype(t)>(true, source, stride, n, k, destination, pool);
  });
}

void unpack(DType dtype, const void* packed, int64_t n, int64_t k, void* destination,
            const Workers& pool) {
  with_storage(dtype, [&](auto t) { unpack_typed<decltype(t)>(packed, n, k, destination, pool); });
}

// Panels of block formats are [panel][block of k][panel block]. A panel block is 16 rows x one
// block.

namespace {

// A format without functions to_lane and from_lane has panels of [k][16] elements.
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

// Calls f(panel) for all panels, several in a chunk.
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
    format.dequantize(block, nullptr, format.block, to + b * format.block);
  }
}

} // namespace dllm::cpu
