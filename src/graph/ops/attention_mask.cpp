#include "graph/ops/attention_mask.h"

#include "base/error.h"
#include "base/named_table.h"

namespace dllm::graph::ops {

MaskPlan mask_plan(const Attributes& attributes) {
  MaskPlan plan;
  plan.has_query_start = attributes.flag("has_query_start");
  const std::string& text = attributes.text("kinds");
  if (text == "full") return plan;
  constexpr MaskKind kAll[] = {MaskKind::causal,    MaskKind::block_causal, MaskKind::two_stream,
                               MaskKind::key_range, MaskKind::window,       MaskKind::segments,
                               MaskKind::key_limit, MaskKind::key_keep,     MaskKind::dense};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    plan.kinds.push_back(need_named(kAll, name, mask_kind_name,
                                    {"mask kind", "of attention", "", Code::invalid_argument}));
    begin = end + 1;
  }
  return plan;
}

void expect_heads(const OpCall& call) {
  if (call.inputs.size() < 3) fail_op(call, "takes q, k, v");
  const char* const names[] = {"q", "k", "v"};
  for (size_t i = 0; i < 3; ++i) {
    expect_dtype(call, i, names[i], {DType::f32});
    expect_rank(call, i, names[i], 4);
  }
  const Shape& q = call.inputs[0].shape;
  const Shape& k = call.inputs[1].shape;
  const Shape& v = call.inputs[2].shape;
  const bool fits = q.dim(0) == k.dim(0) && q.dim(3) == k.dim(3) && v.dim(0) == k.dim(0) &&
                    v.dim(1) == k.dim(1) && v.dim(2) == k.dim(2);
  if (!fits) fail_op(call, types_text(call.inputs.first(3)) + " do not fit");
  if (k.dim(1) < 1) fail_op(call, "k " + call.inputs[1].text() + " has no keys");
  if (k.dim(2) < 1 || q.dim(2) % k.dim(2) != 0) {
    fail_op(call,
            fmt::format("{} query heads are not a multiple of {} key heads", q.dim(2), k.dim(2)));
  }
}

void expect_mask(const OpCall& call, const MaskPlan& plan, size_t first) {
  const int64_t batch = call.inputs[0].shape.dim(0), queries = call.inputs[0].shape.dim(1);
  const int64_t keys = call.inputs[1].shape.dim(1);
  size_t next = first;
  const auto expect = [&](const char* what, DType dtype, const Shape& shape) {
    if (next >= call.inputs.size()) fail_op(call, fmt::format("mask {} is missing", what));
    expect_dtype(call, next, what, {dtype});
    expect_shape(call, next, what, shape);
    ++next;
  };
  if (plan.has_query_start) expect("query_start", DType::i32, Shape{batch});
  for (MaskKind kind : plan.kinds) {
    switch (kind) {
    case MaskKind::causal: break;
    case MaskKind::block_causal: expect("block", DType::i32, Shape{}); break;
    case MaskKind::two_stream:
      expect("length", DType::i32, Shape{});
      expect("block", DType::i32, Shape{});
      break;
    case MaskKind::key_range:
      expect("begin", DType::i32, Shape{batch});
      expect("end", DType::i32, Shape{batch});
      break;
    case MaskKind::window: expect("reach", DType::i32, Shape{}); break;
    case MaskKind::segments:
      expect("query segments", DType::i32, Shape{batch, queries});
      expect("key segments", DType::i32, Shape{batch, keys});
      break;
    case MaskKind::key_limit: expect("limit", DType::i32, Shape{batch, queries}); break;
    case MaskKind::key_keep: expect("keep", DType::u8, Shape{batch, keys}); break;
    case MaskKind::dense: expect("table", DType::u8, Shape{batch, queries, keys}); break;
    }
  }
  expect_inputs(call, next);
}

namespace {

Value at_least_one(Value block) {
  return maximum(block, full_like(block, 1));
}

// The rule of BD3LM (Arriola et al. 2025, section 4): a noised query attends to its own noised
// block and to the clean blocks before it; a clean query attends to clean blocks up to its own.
Value two_stream_visible(Value query, Value key, Value length, Value block) {
  block = at_least_one(block);
  const auto clean = [&](Value at) { return greater_equal(at, length); };
  const auto block_of = [&](Value at) {
    return divide(select(clean(at), subtract(at, length), at), block);
  };
  const Value query_block = block_of(query), key_block = block_of(key);
  const Value own = logical_and(logical_not(clean(key)), equal(key_block, query_block));
  const Value before = logical_and(clean(key), less(key_block, query_block));
  const Value up_to = logical_and(clean(key), less_equal(key_block, query_block));
  return select(clean(query), up_to, logical_or(own, before));
}

} // namespace

Value visible_pairs(const MaskPlan& plan, std::span<const Value> params, Value query, Value key) {
  const int64_t queries = query.dim(1), keys = key.dim(2);
  size_t next = 0;
  const Value zero = scalar_i32(*query.graph, 0);
  Value visible = equal(key, key);
  const auto both = [&](Value term) { visible = logical_and(visible, term); };
  const auto per_row = [&](Value x) { return reshape(x, Shape{x.dim(0), 1, 1}); };
  const auto per_query = [&](Value x) { return reshape(x, Shape{x.dim(0), queries, 1}); };
  const auto per_key = [&](Value x) { return reshape(x, Shape{x.dim(0), 1, keys}); };
  for (MaskKind kind : plan.kinds) {
    switch (kind) {
    case MaskKind::causal: both(less_equal(key, query)); break;
    case MaskKind::block_causal: {
      const Value block = at_least_one(params[next++]);
      both(less_equal(divide(key, block), divide(query, block)));
      break;
    }
    case MaskKind::two_stream:
      both(two_stream_visible(query, key, params[next], params[next + 1]));
      next += 2;
      break;
    case MaskKind::key_range:
      both(greater_equal(key, per_row(params[next++])));
      both(less(key, per_row(params[next++])));
      break;
    case MaskKind::window: both(less_equal(absolute(subtract(query, key)), params[next++])); break;
    case MaskKind::segments:
      both(equal(per_query(params[next]), per_key(params[next + 1])));
      next += 2;
      break;
    case MaskKind::key_limit: both(less(key, per_query(params[next++]))); break;
    case MaskKind::key_keep:
      both(not_equal(convert(per_key(params[next++]), DType::i32), zero));
      break;
    case MaskKind::dense: both(not_equal(convert(params[next++], DType::i32), zero)); break;
    }
  }
  return visible;
}

Value visible_table(const MaskPlan& plan, std::span<const Value> params, const Shape& q,
                    const Shape& k, Graph& graph) {
  const int64_t batch = q.dim(0), queries = q.dim(1), keys = k.dim(1);
  Value query = iota(graph, Shape{1, queries, 1}, DType::i32, 1);
  if (plan.has_query_start) {
    query = add(query, reshape(params[0], Shape{batch, 1, 1}));
    params = params.subspan(1);
  }
  const Value key = iota(graph, Shape{1, 1, keys}, DType::i32, 2);
  const Value visible = visible_pairs(plan, params, query, key);
  return reshape(broadcast(visible, Shape{batch, queries, keys}), Shape{batch, 1, queries, keys});
}

Value by_kv_head(Value x, int64_t kv_heads) {
  const int64_t batch = x.dim(0), n = x.dim(1), group = x.dim(2) / kv_heads, dim = x.dim(3);
  const Value cut = transpose(reshape(x, Shape{batch, n, kv_heads, group, dim}), {0, 2, 3, 1, 4});
  return reshape(cut, Shape{batch, kv_heads, group * n, dim});
}

Value from_kv_head(Value x, int64_t n, int64_t heads) {
  const int64_t batch = x.dim(0), kv_heads = x.dim(1), group = heads / kv_heads, dim = x.dim(3);
  const Value cut = transpose(reshape(x, Shape{batch, kv_heads, group, n, dim}), {0, 3, 1, 2, 4});
  return reshape(cut, Shape{batch, n, heads, dim});
}

Scores attention_scores(Graph& graph, const Node& node, std::span<const Value> inputs,
                        size_t first_param) {
  const Value q = inputs[0], k = inputs[1], v = inputs[2];
  const int64_t kv_heads = k.dim(2);
  Scores made{
      by_kv_head(q, kv_heads), by_kv_head(k, kv_heads), by_kv_head(v, kv_heads), {}, {}, {}};
  const Shape table{q.dim(0), q.dim(2), q.dim(1), k.dim(1)};
  Value s = reshape(dot(made.q, swap_last(made.k)), table);
  s = multiply(s, full_like(s, node.attributes.number("scale")));
  const double cap = node.attributes.number("softcap");
  if (cap > 0) {
    made.capped_ratio = tanh(divide(s, full_like(s, cap)));
    s = multiply(made.capped_ratio, full_like(s, cap));
  }
  made.scores = s;
  const MaskPlan plan = mask_plan(node.attributes);
  made.visible = broadcast(
      visible_table(plan, inputs.subspan(first_param), q.shape(), k.shape(), graph), table);
  return made;
}

} // namespace dllm::graph::ops
