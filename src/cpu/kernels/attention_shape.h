#pragma once
// Shapes and attributes of an attention node, and its keys and values in panels.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"

#include <cstdint>

namespace dllm::cpu {

struct AttentionShape {
  int64_t batch, queries, keys, heads, kv_heads, dim, vdim;
  float scale, softcap;
  bool empty_average;

  explicit AttentionShape(const CompileInfo& info);

  int64_t group() const { return heads / kv_heads; }
  int64_t tiles() const; // of 64 keys
  // Rows of q (batch, queries, heads, dim) and its like: offset of (b, query, head) and elements
  // between queries.
  int64_t q_at(int64_t b, int64_t query, int64_t head) const {
    return ((b * queries + query) * heads + head) * dim;
  }
  int64_t out_at(int64_t b, int64_t query, int64_t head) const {
    return ((b * queries + query) * heads + head) * vdim;
  }
  int64_t k_at(int64_t b, int64_t kv_head) const { return (b * keys * kv_heads + kv_head) * dim; }
  int64_t v_at(int64_t b, int64_t kv_head) const { return (b * keys * kv_heads + kv_head) * vdim; }
  int64_t lse_at(int64_t b, int64_t head, int64_t query) const {
    return (b * heads + head) * queries + query;
  }

  // scores (rows, 64) = q rows . keys of the tile; panels: of (keys, dim).
  Gemm score_product(const float* q, int64_t q_stride, int64_t rows, const std::byte* key_panels,
                     int64_t dims, int64_t tile, float* scores) const;
};

} // namespace dllm::cpu
