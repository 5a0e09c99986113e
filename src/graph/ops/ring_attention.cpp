// Attention of rows whose positions are cut over a mesh axis (Liu et al. 2023, Ring Attention with
// Blockwise Transformers). Keys and values pass from rank to rank. Every rank attends to one part
// of the keys per step and joins the results by their log-sum-exp. A rank holds two parts of the
// keys at a time. In the gradient keys and values pass around the ring again, together with their
// gradients.

#include "graph/ops/build.h"

#include "base/error.h"
#include "graph/mask.h"
#include "graph/ops/attention_mask.h"

#include <algorithm>
#include <limits>

namespace dllm::graph {
namespace {

using namespace ops;

// Returns the input types with all keys in place of one rank's keys, against which heads and mask
// are checked.
std::vector<ValueType> over_all_keys(const OpCall& call) {
  std::vector<ValueType> types(call.inputs.begin(), call.inputs.end());
  if (types.size() < 3) fail_op(call, "takes q, k, v");
  const int64_t ranks = call.attributes.integer("ranks");
  for (const size_t i : {size_t{1}, size_t{2}}) {
    expect_rank(call, i, i == 1 ? "k" : "v", 4);
    types[i].shape = types[i].shape.with_dim(1, types[i].shape.dim(1) * ranks);
  }
  return types;
}

void expect_ring(const OpCall& call, size_t first_param) {
  const auto types = over_all_keys(call);
  const OpCall whole{call.op, types, call.attributes, call.bodies, call.literal};
  const MaskPlan plan = mask_plan(call.attributes);
  if (!plan.has_query_start) fail_op(call, "needs query_start: where the queries of a rank begin");
  for (const MaskKind kind : plan.kinds) {
    if (kind == MaskKind::two_stream || kind == MaskKind::dense)
      fail_op(call,
              fmt::format("keys under a mask of kind {} are not passed on", mask_kind_name(kind)));
  }
  expect_heads(whole);
  expect_mask(whole, plan, first_param);
}

Types ring_types(const OpCall& call) {
  expect_ring(call, 3);
  const Shape& q = call.inputs[0].shape;
  return {{q.with_dim(3, call.inputs[2].shape.dim(3)), DType::f32, {}},
          {Shape{q.dim(0), q.dim(2), q.dim(1)}, DType::f32, {}}};
}

Types ring_grad_types(const OpCall& call) {
  expect_ring(call, 6);
  return {call.inputs[0], call.inputs[1], call.inputs[2]};
}

std::vector<Value> ring_vjp(const VjpCall& call) {
  if (!call.grads[0].defined() || call.grads[1].defined())
    fail(Code::internal, "[ring_attention] its log-sum-exp has no gradient");
  std::vector<Value> inputs(call.inputs.begin(), call.inputs.begin() + 3);
  inputs.insert(inputs.end(), {call.outputs[0], call.outputs[1], call.grads[0]});
  inputs.insert(inputs.end(), call.inputs.begin() + 3, call.inputs.end());
  std::vector<Value> grads = apply_all("ring_attention_grad", inputs, call.node.attributes);
  grads.resize(call.inputs.size());
  return grads;
}

// Computes which keys this rank has at a step, and the mask of its queries for these keys.
class Ring {
public:
  Ring(Graph& graph, const Node& node, std::span<const Value> params, Value keys)
      : graph_(graph), attributes_(node.attributes), plan_(mask_plan(node.attributes)),
        params_(params), axis_(static_cast<Axis>(node.attributes.integer("axis"))),
        ranks_(node.attributes.integer("ranks")), count_(keys.dim(1)), batch_(keys.dim(0)) {}

  int64_t ranks() const { return ranks_; }
  // Sends x to the next rank; the last rank sends to the first.
  Value passed_on(Value x) const {
    std::vector<int64_t> next;
    for (int64_t rank = 0; rank < ranks_; ++rank) next.push_back((rank + 1) % ranks_);
    return permute(x, axis_, next);
  }
  // Returns the operands of attention or its gradient: the inputs and then the mask of this step.
  std::vector<Value> with_mask(std::vector<Value> inputs, int64_t step) {
    const Value first = first_key(step), queries = params_[0];
    const auto behind = [&](Value x) { return subtract(x, broadcast(first, x.shape())); };
    inputs.push_back(behind(queries));
    size_t next = 1;
    kinds_.clear();
    for (const MaskKind kind : plan_.kinds) {
      const char* name = mask_kind_name(kind);
      switch (kind) {
      // A key_limit, because blocks begin at multiples of the position in the whole row.
      case MaskKind::block_causal:
        inputs.push_back(behind(block_end(queries, inputs[0].dim(1), params_[next++])));
        name = mask_kind_name(MaskKind::key_limit);
        break;
      case MaskKind::key_range:
        inputs.push_back(behind(params_[next++]));
        inputs.push_back(behind(params_[next++]));
        break;
      case MaskKind::key_limit: inputs.push_back(behind(params_[next++])); break;
      case MaskKind::segments:
        inputs.push_back(params_[next++]);
        inputs.push_back(own_keys(params_[next++], first));
        break;
      case MaskKind::key_keep: inputs.push_back(own_keys(params_[next++], first)); break;
      case MaskKind::window: inputs.push_back(params_[next++]); break;
      default: break;
      }
      kinds_ += kinds_.empty() ? name : std::string("+") + name;
    }
    return inputs;
  }
  // Returns the attributes for the operands of with_mask(). REQUIRES: with_mask() was called.
  Attributes attributes() const {
    return {{"kinds", kinds_.empty() ? "full" : kinds_},
            {"has_query_start", true},
            {"scale", attributes_.number("scale")},
            {"softcap", attributes_.number("softcap")},
            {"empty_average", false}};
  }

private:
  Value number(int64_t x) const { return scalar_i32(graph_, static_cast<int32_t>(x)); }

  // Returns the first key of a step: after s steps a rank has the keys of the rank s places before.
  Value first_key(int64_t step) const {
    const Value rank = axis_index(graph_, axis_), behind = subtract(rank, number(step));
    const Value owner = select(less(behind, number(0)), add(behind, number(ranks_)), behind);
    return multiply(owner, number(count_));
  }
  Value own_keys(Value x, Value first) const {
    return dynamic_slice(x, {number(0), first}, {batch_, count_});
  }
  // Returns the end of every query's block, i32(batch, queries).
  Value block_end(Value start, int64_t queries, Value block) const {
    block = maximum(block, number(1));
    const Value at = add(iota(graph_, Shape{batch_, queries}, DType::i32, 1),
                         broadcast(reshape(start, {batch_, 1}), {batch_, queries}));
    return multiply(add(divide(at, block), number(1)), block);
  }

  Graph& graph_;
  const Attributes& attributes_;
  MaskPlan plan_;
  std::span<const Value> params_; // for the keys of the whole row; the first is query_start
  Axis axis_;
  int64_t ranks_, count_, batch_; // count_: keys of one rank
  std::string kinds_;
};

// Reshapes x (batch, heads, queries) to (batch, queries, heads, 1), which broadcasts to out.
Value per_row(Value x, Value out) {
  return reshape(transpose(x, {0, 2, 1}), out.shape().with_dim(3, 1));
}

// Joins the results over two parts of the keys: lse = log(sum of exp(lse_i)), out = sum of
// exp(lse_i - lse) out_i.
void join_parts(Value& out, Value& lse, Value other_out, Value other_lse) {
  const Value top = maximum(lse, other_lse), none = full_like(top, 0), one = full_like(top, 1);
  const Value sees = is_finite(top); // false for a query without a visible key in both parts
  const Value floor = select(sees, top, none);
  const auto weight = [&](Value part) { // 0 for a part without a visible key, by exp(-1e30)
    return exp(subtract(maximum(part, full_like(part, -1e30)), floor));
  };
  const Value own = weight(lse), other = weight(other_lse);
  const Value total = select(sees, add(own, other), one);
  out = add(multiply(out, per_row(divide(own, total), out)),
            multiply(other_out, per_row(divide(other, total), out)));
  lse = select(sees, add(floor, log(total)),
               full_like(top, -std::numeric_limits<double>::infinity()));
}

std::vector<Value> ring_definition(Graph& graph, const Node& node, std::span<const Value> inputs) {
  Value k = inputs[1], v = inputs[2], out, lse;
  Ring ring(graph, node, inputs.subspan(3), k);
  for (int64_t step = 0; step < ring.ranks(); ++step) {
    if (step > 0) k = ring.passed_on(k), v = ring.passed_on(v);
    const std::vector<Value> operands = ring.with_mask({inputs[0], k, v}, step);
    const std::vector<Value> part = apply_all("attention", operands, ring.attributes());
    if (step == 0)
      out = part[0], lse = part[1];
    else
      join_parts(out, lse, part[0], part[1]);
  }
  return {out, lse};
}

// The gradient of every part uses the log-sum-exp over all keys. The gradients of keys and values
// pass on with their part until they are back at the part's rank.
std::vector<Value> ring_grad_definition(Graph& graph, const Node& node,
                                        std::span<const Value> inputs) {
  Value k = inputs[1], v = inputs[2], dq, dk, dv;
  Ring ring(graph, node, inputs.subspan(6), k);
  for (int64_t step = 0; step < ring.ranks(); ++step) {
    if (step > 0) k = ring.passed_on(k), v = ring.passed_on(v);
    const std::vector<Value> operands =
        ring.with_mask({inputs[0], k, v, inputs[3], inputs[4], inputs[5]}, step);
    const std::vector<Value> part = apply_all("attention_grad", operands, ring.attributes());
    dq = step == 0 ? part[0] : add(dq, part[0]);
    dk = ring.passed_on(step == 0 ? part[1] : add(dk, part[1]));
    dv = ring.passed_on(step == 0 ? part[2] : add(dv, part[2]));
  }
  return {dq, dk, dv};
}

constexpr OpDef kRingAttentionOps[] = {
    {.name = "ring_attention", .infer = ring_types, .vjp = ring_vjp, .decompose = ring_definition},
    {.name = "ring_attention_grad", .infer = ring_grad_types, .decompose = ring_grad_definition},
};

} // namespace

namespace ops {
std::span<const OpDef> ring_attention_ops() {
  return kRingAttentionOps;
}
} // namespace ops

Value ring_attention(Value q, Value k, Value v, const Mask& mask, const AttentionOptions& options,
                     Axis axis, int64_t ranks) {
  std::vector<Value> inputs{q, k, v};
  for (Value param : mask.params()) inputs.push_back(param);
  return apply("ring_attention", inputs,
               {{"kinds", mask.kinds()},
                {"has_query_start", mask.query_start.defined()},
                {"scale", static_cast<double>(options.scale)},
                {"softcap", static_cast<double>(options.softcap)},
                {"axis", static_cast<int64_t>(axis)},
                {"ranks", ranks}});
}

} // namespace dllm::graph
