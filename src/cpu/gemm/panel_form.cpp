// Packs weights into the layout of an arithmetic, which is pairs of bf16, quads of int8 (dot.h), or
// elements (pack.cpp).

#include "base/error.h"
#include "base/threads/parallel.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/pack_vector.h"
#include "cpu/kernel.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace dllm::cpu {
namespace {

// The largest k of int8 products. With a larger k a sum of products of 127 and 128 might not fit 32
// bits.
constexpr int64_t kLongestInt8 = int64_t{1} << 17;
constexpr uint8_t kOffset = 0x80; // w + 128 as u8 is w with an inverted sign bit
constexpr int64_t kScaleBytes = 2 * kPanel;

// Returns true for q8_0. Its panel block is an f16 scale per row and then bytes, [16
// scales][k][16].
bool has_byte_blocks(const WeightFormat& format) {
  return std::string_view(format.name) == "q8_0";
}

template <class F> void for_panels(int64_t panels, int64_t bytes, const Workers& pool, const F& f) {
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, bytes));
  parallel(pool, (panels + step - 1) / step, [&](int64_t chunk) {
    for (int64_t p = chunk * step; p < std::min(panels, (chunk + 1) * step); ++p) f(p);
  });
}

uint16_t rounded(float value) {
  return f32_to_bf16(value);
}
uint16_t rounded(uint16_t bits) {
  return bits;
}

// Packs a matrix of n columns into pairs over k. Number i of a column is source[column *
// column_step + i * step].
template <class T>
void pack_pairs(const T* source, int64_t column_step, int64_t step, int64_t n, int64_t k,
                uint16_t* to, const Workers& pool) {
  const int64_t line = (k + 1) / 2 * 2;
  int64_t packed = 0; // panels
  if constexpr (std::is_same_v<T, float>) {
    if (column_step == 1) {
      packed = n / kPanel;
      pair_rows(source, step, k, packed, to, kPanel * line, pool);
    }
  }
  for_panels(panel_count(n) - packed, kPanel * line * 2, pool, [&](int64_t index) {
    const int64_t p = packed + index;
    uint16_t* panel = to + p * kPanel * line;
    const int64_t columns = std::min(kPanel, n - p * kPanel);
    const T* from = source + p * kPanel * column_step;
    if constexpr (std::is_same_v<T, float>) {
      if (columns == kPanel && step == 1 && k % 8 == 0) {
        pair_columns(from, column_step, k, panel);
        return;
      }
    }
    if (columns < kPanel || line != k)
      std::memset(panel, 0, static_cast<size_t>(kPanel * line * 2));
    constexpr int64_t kTile = 64; // a tile of a transposition stays in the first-level cache
    for (int64_t begin = 0; begin < k; begin += kTile) {
      const int64_t end = std::min(k, begin + kTile);
      if (column_step == 1) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t j = 0; j < columns; ++j)
            panel[i / 2 * 2 * kPanel + 2 * j + i % 2] = rounded(from[i * step + j]);
        }
      } else {
        for (int64_t j = 0; j < columns; ++j) {
          const T* row = from + j * column_step;
          for (int64_t i = begin; i < end; ++i)
            panel[i / 2 * 2 * kPanel + 2 * j + i % 2] = rounded(row[i * step]);
        }
      }
    }
  });
}

void pack_pairs_of(const PanelForm& form, const void* source, int64_t out, int64_t in, void* to,
                   const Workers& pool) {
  const int64_t n = form.transposed ? in : out, k = form.transposed ? out : in;
  const int64_t column_step = form.transposed ? 1 : in, step = form.transposed ? in : 1;
  auto* panels = static_cast<uint16_t*>(to);
  if (form.dtype == DType::f32)
    pack_pairs(static_cast<const float*>(source), column_step, step, n, k, panels, pool);
  else
    pack_pairs(static_cast<const uint16_t*>(source), column_step, step, n, k, panels, pool);
}

void unpack_pairs(const uint16_t* packed, int64_t n, int64_t k, uint16_t* to, const Workers& pool) {
  const int64_t line = (k + 1) / 2 * 2;
  for_panels(panel_count(n), kPanel * line * 2, pool, [&](int64_t p) {
    for (int64_t row = p * kPanel; row < std::min(n, (p + 1) * kPanel); ++row) {
      const uint16_t* panel = packed + p * kPanel * line + row % kPanel * 2;
      for (int64_t i = 0; i < k; ++i) to[row * k + i] = panel[i / 2 * 2 * kPanel + i % 2];
    }
  });
}

// Returns the offset of byte i of row `lane` in a panel of quads.
int64_t quad_at(int64_t i, int64_t lane) {
  return i / 4 * kLineBytes + lane * 4 + i % 4;
}

void pack_quads(const uint8_t* source, int64_t n, int64_t k, uint8_t* to, const Workers& pool) {
  const int64_t line = (k + 3) / 4 * 4;
  for_panels(panel_count(n), kPanel * line, pool, [&](int64_t p) {
    uint8_t* panel = to + p * kPanel * line;
    const int64_t columns = std::min(kPanel, n - p * kPanel);
    if (columns < kPanel || line != k)
      std::memset(panel, kOffset, static_cast<size_t>(kPanel * line));
    for (int64_t j = 0; j < columns; ++j) {
      const uint8_t* row = source + (p * kPanel + j) * k;
      int64_t i = 0;
      for (; i + 4 <= k; i += 4) {
        uint32_t four;
        std::memcpy(&four, row + i, sizeof four);
        four ^= 0x80808080u;
        std::memcpy(panel + quad_at(i, j), &four, sizeof four);
      }
      for (; i < k; ++i) panel[quad_at(i, j)] = row[i] ^ kOffset;
    }
  });
}

void unpack_quads(const uint8_t* packed, int64_t n, int64_t k, uint8_t* to, const Workers& pool) {
  const int64_t line = (k + 3) / 4 * 4;
  for_panels(panel_count(n), kPanel * line, pool, [&](int64_t p) {
    for (int64_t row = p * kPanel; row < std::min(n, (p + 1) * kPanel); ++row) {
      const uint8_t* panel = packed + p * kPanel * line;
      for (int64_t i = 0; i < k; ++i) to[row * k + i] = panel[quad_at(i, row % kPanel)] ^ kOffset;
    }
  });
}

// Convert one block of a row to quads and back. `scales` and `quads` belong to the panel block.
void block_to_quads(const WeightFormat& format, const uint8_t* block, int64_t lane, uint8_t* scales,
                    uint8_t* quads) {
  std::memcpy(scales + 2 * lane, block, 2);
  for (int64_t i = 0; i < format.block; ++i) quads[quad_at(i, lane)] = block[2 + i] ^ kOffset;
}
void block_from_quads(const WeightFormat& format, const uint8_t* scales, const uint8_t* quads,
                      int64_t lane, uint8_t* block) {
  std::memcpy(block, scales + 2 * lane, 2);
  for (int64_t i = 0; i < format.block; ++i) block[2 + i] = quads[quad_at(i, lane)] ^ kOffset;
}

// Calls f(block of a row, lane, scales, quads) for all blocks of all rows.
template <class Row, class Panel, class F>
void each_block(const WeightFormat& format, Row* rows, Panel* panels, int64_t n, int64_t k,
                const Workers& pool, const F& f) {
  const int64_t line = format.row_bytes(k), blocks = k / format.block;
  for_panels(panel_count(n), kPanel * line, pool, [&](int64_t p) {
    for (int64_t row = p * kPanel; row < std::min(n, (p + 1) * kPanel); ++row) {
      Panel* scales = panels + p * line * kPanel;
      Panel* quads = scales + blocks * kScaleBytes;
      for (int64_t b = 0; b < blocks; ++b) {
        f(rows + row * line + b * format.block_bytes, row % kPanel, scales + b * kScaleBytes,
          quads + b * format.block * kPanel);
      }
    }
  });
}

void pack_block_quads(const WeightFormat& format, const uint8_t* source, int64_t n, int64_t k,
                      uint8_t* to, const Workers& pool) {
  if (n % kPanel != 0) {
    const int64_t bytes = kPanel * format.row_bytes(k);
    std::memset(to + n / kPanel * bytes, 0, static_cast<size_t>(bytes));
  }
  each_block(format, source, to, n, k, pool,
             [&](const uint8_t* row, int64_t lane, uint8_t* scales, uint8_t* quads) {
               block_to_quads(format, row, lane, scales, quads);
             });
}

} // namespace

int64_t PanelForm::line_bytes(int64_t k) const {
  if (format != nullptr) return format->row_bytes(k);
  switch (layout) {
  case PanelLayout::pairs: return (k + 1) / 2 * 4;
  case PanelLayout::quads: return (k + 3) / 4 * 4;
  default: return k * dtype_size(dtype);
  }
}

int64_t PanelForm::bytes(int64_t out, int64_t in) const {
  return transposed ? panel_count(in) * kPanel * line_bytes(out)
                    : panel_count(out) * kPanel * line_bytes(in);
}

PanelForm panel_form(Arithmetic arithmetic, DType dtype, const WeightFormat* format, int64_t in,
                     bool transposed) {
  PanelForm form{dtype, format, PanelLayout::elements, transposed};
  if (arithmetic == kArithmeticBf16 && format == nullptr &&
      (dtype == DType::f32 || dtype == DType::bf16)) {
    form.layout = PanelLayout::pairs;
  }
  const bool bytes = format != nullptr ? has_byte_blocks(*format) : dtype == DType::i8;
  if (arithmetic == kArithmeticInt8 && bytes && !transposed && in <= kLongestInt8)
    form.layout = PanelLayout::quads;
  return form;
}

Expansion expansion_of(Arithmetic arithmetic, const PanelForm& stored, bool transposed) {
  if (!stored.turns()) return Expansion::none;
  if (transposed) return Expansion::turned;
  if (arithmetic == kArithmeticBf16) return Expansion::rows;
  // A product reads int8 and f16 as fast as f32.
  const bool has_codes = stored.format != nullptr && stored.format->block > 1;
  return has_codes && stored.layout == PanelLayout::elements ? Expansion::rows : Expansion::none;
}

void pack(const PanelForm& form, const void* source, int64_t out, int64_t in, void* destination,
          const Workers& pool) {
  const auto* bytes = static_cast<const uint8_t*>(source);
  auto* to = static_cast<uint8_t*>(destination);
  if (form.layout == PanelLayout::pairs)
    return pack_pairs_of(form, source, out, in, destination, pool);
  if (form.layout == PanelLayout::quads) {
    if (form.format != nullptr) return pack_block_quads(*form.format, bytes, out, in, to, pool);
    return pack_quads(bytes, out, in, to, pool);
  }
  if (form.format != nullptr) return pack(*form.format, source, out, in, destination, pool);
  if (form.transposed) return pack_transposed(form.dtype, source, in, in, out, destination, pool);
  pack(form.dtype, source, in, out, in, destination, pool);
}

void unpack(const PanelForm& form, const void* packed, int64_t out, int64_t in, void* destination,
            const Workers& pool) {
  if (!form.is_exact() || form.transposed)
    fail(Code::internal, "[gemm] panels of {} cannot be unpacked", dtype_name(form.dtype));
  const auto* bytes = static_cast<const uint8_t*>(packed);
  auto* to = static_cast<uint8_t*>(destination);
  if (form.layout == PanelLayout::pairs)
    return unpack_pairs(static_cast<const uint16_t*>(packed), out, in,
                        static_cast<uint16_t*>(destination), pool);
  if (form.layout == PanelLayout::elements) {
    if (form.format != nullptr) return unpack(*form.format, packed, out, in, destination, pool);
    return unpack(form.dtype, packed, out, in, destination, pool);
  }
  if (form.format == nullptr) return unpack_quads(bytes, out, in, to, pool);
  each_block(*form.format, to, bytes, out, in, pool,
             [&](uint8_t* row, int64_t lane, const uint8_t* scales, const uint8_t* quads) {
               block_from_quads(*form.format, scales, quads, lane, row);
             });
}

void packed_row(const PanelForm& form, const void* packed, int64_t in, int64_t row, float* to) {
  const WeightFormat& format = *form.format;
  if (form.layout == PanelLayout::elements) return packed_row(format, packed, in, row, to);
  constexpr int64_t kLargestBlock = 512; // bytes
  uint8_t block[kLargestBlock];
  const uint8_t* panel =
      static_cast<const uint8_t*>(packed) + row / kPanel * kPanel * format.row_bytes(in);
  const int64_t blocks = in / format.block;
  for (int64_t b = 0; b < blocks; ++b) {
    block_from_quads(format, panel + b * kScaleBytes,
                     panel + blocks * kScaleBytes + b * format.block * kPanel, row % kPanel, block);
    format.dequantize(reinterpret_cast<const std::byte*>(block), nullptr, format.block,
                      to + b * format.block);
  }
}

} // namespace dllm::cpu
