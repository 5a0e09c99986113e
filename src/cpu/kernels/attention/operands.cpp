// Implements shapes, keys and values of attention (attention.h).

#include "cpu/kernels/attention/attention.h"

#include "cpu/kernels/rows/rows.h"
#include "graph/op.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace dllm::cpu {

namespace {

const graph::Node* producer_of(const graph::Graph& graph, int32_t value, std::string_view op) {
  const int32_t number = graph.producer(value);
  if (number < 0) return nullptr;
  const graph::Node& node = graph.nodes()[static_cast<size_t>(number)];
  return std::string_view(node.op->name) == op ? &node : nullptr;
}

// Returns the `take` that makes the value, directly or before a reshape, or null. It is take(table
// (rows, kv_heads * dim), indices (batch, keys)), or take(table i8(rows, dim), indices (batch,
// keys, kv_heads), scales).
const graph::Node* gather_of(const graph::Graph& graph, int32_t value) {
  if (const graph::Node* reshape = producer_of(graph, value, "reshape")) value = reshape->inputs[0];
  const graph::Node* take = producer_of(graph, value, "take");
  if (take == nullptr) return nullptr;
  const graph::ValueType& table = graph.type(take->inputs[0]);
  const graph::ValueType& indices = graph.type(take->inputs[1]);
  if (table.shape.rank() != 2) return nullptr;
  const bool whole = table.dtype == DType::f32 || table.dtype == DType::bf16;
  const bool by_head = table.dtype == DType::i8 && indices.shape.rank() == 3;
  return by_head || (whole && indices.shape.rank() == 2) ? take : nullptr;
}

} // namespace

KeyPlan::KeyPlan(const CompileInfo& info, size_t operand) {
  const Shape& shape = info.input(operand).shape;
  keys = shape.dim(1), kv_heads = shape.dim(2), dim = shape.dim(3);
  value = info.node.inputs[operand];
  const graph::Node* take = gather_of(info.graph, value);
  if (take == nullptr) return;
  const graph::ValueType& table = info.graph.type(take->inputs[0]);
  const Shape& places = info.graph.type(take->inputs[1]).shape;
  const bool by_head = table.dtype == DType::i8;
  if (table.shape.dim(1) != (by_head ? dim : kv_heads * dim) || places.dim(0) != shape.dim(0) ||
      places.dim(1) != keys || (by_head && places.dim(2) != kv_heads))
    return;
  gathered = true;
  dtype = table.dtype;
  rows = table.shape.dim(0);
  value = take->inputs[0];
  indices = take->inputs[1];
  if (by_head) scales = take->inputs[2];
}

const float* KeyRows::row(int64_t batch, int64_t key, int64_t head, float* buffer) const {
  const int64_t row = head_row(batch, key, head), at = row * plan.dim;
  if (plan.dtype == DType::f32) return reinterpret_cast<const float*>(table) + at;
  if (plan.dtype == DType::i8)
    rows().widen_i8(reinterpret_cast<const int8_t*>(table) + at, scales[row], plan.dim, buffer);
  else
    rows().widen_bf16(reinterpret_cast<const uint16_t*>(table) + at, plan.dim, buffer);
  return buffer;
}

const float* KeyRows::tile(int64_t batch, int64_t first, int64_t count, int64_t head, float* buffer,
                           int64_t* stride) const {
  const int64_t begin = row_of(batch, first);
  // Keys of one request are usually contiguous, and then they are not copied.
  if (plan.dtype == DType::f32 && row_of(batch, first + count - 1) == begin + count - 1) {
    bool dense = true;
    for (int64_t i = 1; i < count && dense; ++i) dense = row_of(batch, first + i) == begin + i;
    if (dense) {
      *stride = plan.kv_heads * plan.dim;
      return reinterpret_cast<const float*>(table) + (begin * plan.kv_heads + head) * plan.dim;
    }
  }
  *stride = plan.dim;
  for (int64_t i = 0; i < count; ++i) {
    float* to = buffer + i * plan.dim;
    const float* from = row(batch, first + i, head, to);
    if (from != to) std::memcpy(to, from, static_cast<size_t>(plan.dim) * sizeof(float));
  }
  return buffer;
}

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
  // The product has whole panels. Columns after the last key are zero, and the caller masks them.
  gemm.n = panel_count(std::min(kKeyTile, keys - tile * kKeyTile)) * kPanel;
  gemm.k = dims;
  return gemm;
}

} // namespace dllm::cpu
