#include "cpu/kernels/attention_shape.h"

#include "cpu/kernels/attention_mask.h"

#include <algorithm>

namespace dllm::cpu {

AttentionShape::AttentionShape(const CompileInfo& info) {
  const Shape& q = info.input(0).shape;
  const Shape& k = info.input(1).shape;
  batch = q.dim(0), queries = q.dim(1), heads = q.dim(2), dim = q.dim(3);
  keys = k.dim(1), kv_heads = k.dim(2), vdim = info.input(2).shape.dim(3);
  scale = static_cast<float>(info.node.attributes.number("scale"));
  softcap = static_cast<float>(info.node.attributes.number("softcap"));
  empty_average = info.node.attributes.flag("empty_average");
}

int64_t AttentionShape::tiles() const {
  return (keys + kKeyTile - 1) / kKeyTile;
}

Gemm AttentionShape::score_product(const float* q, int64_t q_stride, int64_t rows,
                                   const std::byte* key_panels, int64_t dims, int64_t tile,
                                   float* scores) const {
  Gemm gemm;
  gemm.a = q;
  gemm.a_stride = q_stride;
  gemm.b = key_panels + tile * kKeyTile * dims * static_cast<int64_t>(sizeof(float));
  gemm.c = scores;
  gemm.c_stride = kKeyTile;
  gemm.m = rows;
  // Whole panels: columns beyond the last key are zero and masked by the caller.
  gemm.n = panel_count(std::min(kKeyTile, keys - tile * kKeyTile)) * kPanel;
  gemm.k = dims;
  return gemm;
}

} // namespace dllm::cpu
