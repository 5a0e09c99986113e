#include "cpu/gemm/pack.h"

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/kernel.h"

#include <algorithm>
#include <cstring>

namespace dllm::cpu {
namespace {

constexpr int64_t kTile = 64; // rows of a transposition that stay in the first-level cache

// Panels of one chunk: enough bytes that handing it out costs nothing.
int64_t panels_per_chunk(int64_t k, int64_t element) {
  return std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, k * kPanel * element));
}

template <class T>
void pack_panel(const T* source, int64_t stride, int64_t columns, int64_t k, T* panel) {
  if (columns < kPanel) std::fill(panel, panel + k * kPanel, T{});
  for (int64_t k0 = 0; k0 < k; k0 += kTile) {
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
                void* destination, ThreadPool* pool) {
  const T* from = static_cast<const T*>(source);
  T* to = static_cast<T*>(destination);
  const int64_t panels = panel_count(n);
  const int64_t step = panels_per_chunk(k, sizeof(T));
  parallel(pool, (panels + step - 1) / step, [&](int64_t chunk) {
    for (int64_t p = chunk * step; p < std::min(panels, (chunk + 1) * step); ++p) {
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
void unpack_typed(bool transposed, const void* packed, int64_t n, int64_t k, void* destination) {
  const T* from = static_cast<const T*>(packed);
  T* to = static_cast<T*>(destination);
  const int64_t row = transposed ? 1 : k;
  const int64_t column = transposed ? n : 1;
  for (int64_t j = 0; j < n; ++j) {
    const T* panel = from + j / kPanel * k * kPanel + j % kPanel;
    for (int64_t i = 0; i < k; ++i) to[j * row + i * column] = panel[i * kPanel];
  }
}

// Calls f with a value of the storage type of `dtype`.
template <class F> void with_storage(DType dtype, const F& f) {
  switch (dtype) {
  case DType::f32: return f(uint32_t{});
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
          ThreadPool* pool) {
  with_storage(dtype, [&](auto t) {
    pack_typed<decltype(t)>(false, source, stride, n, k, destination, pool);
  });
}

void pack_transposed(DType dtype, const void* source, int64_t stride, int64_t n, int64_t k,
                     void* destination, ThreadPool* pool) {
  with_storage(dtype, [&](auto t) {
    pack_typed<decltype(t)>(true, source, stride, n, k, destination, pool);
  });
}

void unpack(DType dtype, const void* packed, int64_t n, int64_t k, void* destination) {
  with_storage(dtype, [&](auto t) { unpack_typed<decltype(t)>(false, packed, n, k, destination); });
}

void unpack_transposed(DType dtype, const void* packed, int64_t n, int64_t k, void* destination) {
  with_storage(dtype, [&](auto t) { unpack_typed<decltype(t)>(true, packed, n, k, destination); });
}

} // namespace dllm::cpu
