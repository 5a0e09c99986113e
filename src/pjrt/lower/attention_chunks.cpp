#include "pjrt/lower/attention_chunks.h"

#include "graph/ops/build.h"

#include <algorithm>

namespace dllm::pjrt {

using graph::MaskKind;
using graph::Value;
using namespace graph::ops;

namespace {

constexpr int64_t kChunk = 256; // queries
constexpr int64_t kLeastChunk = 32;
constexpr int64_t kDenseBelow = 1024;               // keys
constexpr int64_t kScoreBytes = int64_t{128} << 20; // most bytes of one table of scores
// Causal chunks form this number of groups. Each group computes the keys of its last chunk and is
// one more loop for the compiler. With many chunks (1 + 2 + 3 + 4) / 16 = 0.63 of the table is
// computed, of which 0.5 is visible.
constexpr int64_t kExtents = 4;

// The axes of queries and keys in a parameter of a mask; -1 for a parameter without the axis.
struct ParamAxes {
  int64_t query, key;
};

std::vector<ParamAxes> param_axes(const MaskPlan& plan) {
  std::vector<ParamAxes> axes;
  for (MaskKind kind : plan.kinds) {
    switch (kind) {
    case MaskKind::causal: break;
    case MaskKind::block_causal:
    case MaskKind::window: axes.push_back({-1, -1}); break;
    case MaskKind::two_stream:
    case MaskKind::key_range: axes.insert(axes.end(), 2, {-1, -1}); break;
    case MaskKind::segments: axes.insert(axes.end(), {{1, -1}, {-1, 1}}); break;
    case MaskKind::key_limit: axes.push_back({1, -1}); break;
    case MaskKind::key_keep: axes.push_back({-1, 1}); break;
    case MaskKind::dense: axes.push_back({1, 2}); break;
    }
  }
  return axes;
}

bool has_kind(const MaskPlan& plan, MaskKind kind) {
  return std::find(plan.kinds.begin(), plan.kinds.end(), kind) != plan.kinds.end();
}

} // namespace

AttentionShape::AttentionShape(std::span<const Value> in)
    : batch(in[0].dim(0)), queries(in[0].dim(1)), keys(in[1].dim(1)), heads(in[0].dim(2)),
      kv_heads(in[1].dim(2)), dim(in[0].dim(3)), vdim(in[2].dim(3)) {}

ChunkPlan plan_chunks(const AttentionShape& s, const graph::Attributes& attributes) {
  const auto bytes = [&](int64_t rows) { return s.batch * s.heads * rows * s.keys * 4; };
  const auto all = [&] { return ChunkPlan{s.queries, 1, {{0, 1, s.keys}}}; };
  if (s.keys < kDenseBelow && bytes(s.queries) <= kScoreBytes) return all();
  int64_t rows = kChunk;
  while (rows > kLeastChunk && bytes(rows) > kScoreBytes) rows /= 2;
  if (s.queries <= rows) return all();
  ChunkPlan plan{rows, (s.queries + rows - 1) / rows, {}};
  const MaskPlan mask = mask_plan(attributes);
  // Causal chunk i sees the keys before (i + 1) * rows, if queries begin at coordinate 0.
  const bool grows = has_kind(mask, MaskKind::causal) && !mask.has_query_start;
  const int64_t groups = grows ? std::min(kExtents, plan.chunks) : 1;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t end = plan.chunks * (g + 1) / groups;
    const int64_t keys = grows ? std::min(s.keys, end * rows) : s.keys;
    if (!plan.extents.empty() && plan.extents.back().keys == keys) {
      plan.extents.back().end = end;
    } else {
      plan.extents.push_back({plan.chunks * g / groups, end, keys});
    }
  }
  return plan;
}

NodeMask::NodeMask(const graph::Node& node, std::span<const Value> params_of_node)
    : plan(mask_plan(node.attributes)) {
  if (plan.has_query_start) {
    query_start = reshape(params_of_node[0], Shape{params_of_node[0].dim(0), 1, 1});
    params_of_node = params_of_node.subspan(1);
  }
  params.assign(params_of_node.begin(), params_of_node.end());
}

ChunkScores chunk_scores(const NodeMask& mask, const graph::Attributes& attributes, Value q,
                         Value k, Value first, int64_t queries) {
  graph::Graph& graph = *q.graph;
  const int64_t keys = k.dim(2);
  const Shape table{q.dim(0), q.dim(1), q.dim(2) / queries, queries, keys};
  Value s = reshape(dot(q, swap_last(k)), table);
  s = multiply(s, full_like(s, attributes.number("scale")));
  ChunkScores made;
  const double cap = attributes.number("softcap");
  if (cap > 0) {
    made.capped_ratio = tanh(divide(s, full_like(s, cap)));
    s = multiply(made.capped_ratio, full_like(s, cap));
  }
  made.scores = s;
  Value query = add(iota(graph, Shape{1, queries, 1}, DType::i32, 1), first);
  if (mask.query_start.defined()) query = add(query, mask.query_start);
  const Value key = iota(graph, Shape{1, 1, keys}, DType::i32, 2);
  const Value seen = visible_pairs(mask.plan, mask.params, query, key);
  const Shape flat{seen.dim(0), 1, 1, seen.dim(1), seen.dim(2)};
  made.visible = broadcast(reshape(seen, flat), table);
  return made;
}

Value Chunks::stack(Value x, int64_t axis, double fill) const {
  const int64_t all = plan_.chunks * plan_.rows;
  if (x.dim(axis) != all) {
    std::vector<int64_t> low(static_cast<size_t>(x.rank()), 0), high = low;
    high[static_cast<size_t>(axis)] = all - x.dim(axis);
    x = pad(x, low, high, constant(*x.graph, Tensor::scalar<double>(fill).to(x.dtype())));
  }
  std::vector<int64_t> split, order{axis};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i == axis) split.push_back(plan_.chunks);
    split.push_back(i == axis ? plan_.rows : x.dim(i));
    order.push_back(i < axis ? i : i + 1);
  }
  return transpose(reshape(x, Shape(split)), order);
}

Value Chunks::of_heads(Value x) const {
  const int64_t n = x.dim(3), group = s_.group();
  const Value cut = stack(x, 1, 0); // (chunks, batch, rows, heads, n)
  const Shape by_group{plan_.chunks, s_.batch, plan_.rows, s_.kv_heads, group, n};
  const Value turned = transpose(reshape(cut, by_group), {0, 1, 3, 4, 2, 5});
  return reshape(turned, Shape{plan_.chunks, s_.batch, s_.kv_heads, group * plan_.rows, n});
}

Value Chunks::to_heads(Value x) const {
  const int64_t n = x.dim(4), all = plan_.chunks * plan_.rows;
  const Shape by_group{plan_.chunks, s_.batch, s_.kv_heads, s_.group(), plan_.rows, n};
  const Value turned = transpose(reshape(x, by_group), {1, 0, 4, 2, 3, 5});
  return slice_axis(reshape(turned, Shape{s_.batch, all, s_.heads, n}), 1, 0, s_.queries);
}

Value Chunks::of_rows(Value x, double fill) const {
  return reshape(stack(x, 2, fill), // (chunks, batch, heads, rows)
                 Shape{plan_.chunks, s_.batch, s_.kv_heads, s_.group() * plan_.rows, 1});
}

Value Chunks::to_rows(Value x) const {
  const Shape by_head{plan_.chunks, s_.batch, s_.heads, plan_.rows};
  const Value turned = transpose(reshape(x, by_head), {1, 2, 0, 3});
  const int64_t all = plan_.chunks * plan_.rows;
  return slice_axis(reshape(turned, Shape{s_.batch, s_.heads, all}), 2, 0, s_.queries);
}

Value Chunks::first_queries(graph::Graph& graph) const {
  return times(iota(graph, Shape{plan_.chunks}, DType::i32, 0), plan_.rows);
}

NodeMask Chunks::cut_mask(ScanBody& body, const NodeMask& mask, const KeyExtent& extent) const {
  const std::vector<ParamAxes> axes = param_axes(mask.plan);
  NodeMask cut = mask;
  for (size_t i = 0; i < cut.params.size(); ++i) {
    if (axes[i].query < 0) continue;
    Value param = mask.params[i];
    if (axes[i].key >= 0) param = slice_axis(param, axes[i].key, 0, extent.keys);
    const Value stacked = stack(param, axes[i].query, 0);
    cut.params[i] = body.element(slice_axis(stacked, 0, extent.begin, extent.end));
  }
  return cut;
}

NodeMask Chunks::share_mask(ScanBody& body, NodeMask cut, const NodeMask& mask,
                            const KeyExtent& extent) const {
  const std::vector<ParamAxes> axes = param_axes(mask.plan);
  cut.query_start = body.outside(mask.query_start);
  for (size_t i = 0; i < cut.params.size(); ++i) {
    if (axes[i].query >= 0) continue;
    Value param = mask.params[i];
    if (axes[i].key >= 0) param = slice_axis(param, axes[i].key, 0, extent.keys);
    cut.params[i] = body.outside(param);
  }
  return cut;
}

} // namespace dllm::pjrt
