// Mesh operations. vary turns an equal value into a varying one, without work. all_reduce,
// all_reduce_max and an `equal` all_gather turn a varying value into an equal one. The other
// operations keep a value varying. A loss that is equal counts once, whatever the number of ranks.
// The gradient of an equal result is therefore the same on all ranks, and each gradient has the
// type of its value.

#include "graph/ops/build.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::graph {
namespace {

using namespace ops;

AxisSet axes_of(const Attributes& attributes) {
  AxisSet axes;
  for (int64_t axis : attributes.list("axes")) axes = axes.with(AxisSet(static_cast<Axis>(axis)));
  return axes;
}

std::vector<int64_t> axis_list(AxisSet axes) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < kAxisCount; ++i) {
    if (axes.has(static_cast<Axis>(i))) list.push_back(i);
  }
  return list;
}

Types vary_types(const OpCall& call) {
  expect_inputs(call, 1);
  ValueType y = call.inputs[0];
  const AxisSet axes = axes_of(call.attributes);
  if (!(y.axes.without(axes) == y.axes))
    fail_op(call, y.text() + " varies over " + axes.text() + " already");
  y.axes = y.axes.with(axes);
  return {y};
}

Types all_reduce_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32, DType::u32});
  ValueType y = call.inputs[0];
  const AxisSet axes = axes_of(call.attributes);
  if (!y.axes.contains(axes)) {
    fail_op(call, y.text() + " is equal over some of " + axes.text() +
                      (std::string_view(call.op.name) == "all_reduce"
                           ? ": summing it again would multiply it by the number of ranks"
                           : ": there is nothing to compare"));
  }
  y.axes = y.axes.without(axes);
  return {y};
}

// Checks the operand of an operation over one axis and returns its type.
ValueType expect_varying(const OpCall& call) {
  expect_inputs(call, 1);
  const ValueType& x = call.inputs[0];
  const auto axis = static_cast<Axis>(call.attributes.integer("axis"));
  if (!x.axes.has(axis)) {
    fail_op(call, fmt::format("{} is equal over {}: there is nothing to exchange", x.text(),
                              axis_name(axis)));
  }
  return x;
}

int64_t expect_ranks(const OpCall& call) {
  const int64_t ranks = call.attributes.integer("ranks");
  if (ranks < 1) fail_op(call, fmt::format("{} ranks", ranks));
  return ranks;
}

int64_t expect_cut(const OpCall& call, const Shape& shape, const char* name, int64_t ranks) {
  const int64_t dim = normal_axis(call.op.name, shape, call.attributes.integer(name));
  if (shape.dim(dim) % ranks != 0) {
    fail_op(call,
            fmt::format("axis {} of {} does not divide by {} ranks", dim, shape.text(), ranks));
  }
  return dim;
}

Types all_gather_types(const OpCall& call) {
  ValueType x = expect_varying(call);
  const int64_t ranks = expect_ranks(call);
  const int64_t dim = normal_axis(call.op.name, x.shape, call.attributes.integer("dim"));
  x.shape = x.shape.with_dim(dim, x.shape.dim(dim) * ranks);
  if (call.attributes.flag("equal"))
    x.axes = x.axes.without(AxisSet(static_cast<Axis>(call.attributes.integer("axis"))));
  return {x};
}

Types reduce_scatter_types(const OpCall& call) {
  expect_dtype(call, 0, "x", {DType::f32, DType::i32, DType::u32});
  ValueType x = expect_varying(call);
  const int64_t ranks = expect_ranks(call);
  const int64_t dim = expect_cut(call, x.shape, "dim", ranks);
  x.shape = x.shape.with_dim(dim, x.shape.dim(dim) / ranks);
  return {x};
}

Types all_to_all_types(const OpCall& call) {
  ValueType x = expect_varying(call);
  const int64_t ranks = expect_ranks(call);
  const int64_t split = expect_cut(call, x.shape, "split_dim", ranks);
  const int64_t joined = normal_axis(call.op.name, x.shape, call.attributes.integer("concat_dim"));
  x.shape = x.shape.with_dim(split, x.shape.dim(split) / ranks);
  x.shape = x.shape.with_dim(joined, x.shape.dim(joined) * ranks);
  return {x};
}

Types permute_types(const OpCall& call) {
  const ValueType x = expect_varying(call);
  std::vector<int64_t> sorted = call.attributes.list("target_of_rank");
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i))
      fail_op(call, "target_of_rank is not a permutation of the ranks");
  }
  return {x};
}

Types axis_index_types(const OpCall& call) {
  expect_inputs(call, 0);
  return {{Shape{}, DType::i32, AxisSet(static_cast<Axis>(call.attributes.integer("axis")))}};
}

// Converts to f32, in which sums over ranks are computed.
Value wide(Value x) {
  return convert(x, DType::f32);
}

std::vector<Value> vary_vjp(const VjpCall& call) {
  return {all_reduce(wide(call.grads[0]), axes_of(call.node.attributes))};
}
std::vector<Value> all_reduce_vjp(const VjpCall& call) {
  return {vary(call.grads[0], axes_of(call.node.attributes))};
}
// The ranks whose element equals the maximum share the gradient.
std::vector<Value> all_reduce_max_vjp(const VjpCall& call) {
  const AxisSet axes = axes_of(call.node.attributes);
  const Value x = call.inputs[0];
  const Value hit = convert(equal(x, call.outputs[0]), x.dtype());
  return {multiply(hit, divide(call.grads[0], all_reduce(hit, axes)))};
}
// For an equal result a rank's part came from this rank alone, so its gradient needs no exchange.
// For a varying result every rank used every part, so the gradients are summed over ranks.
std::vector<Value> all_gather_vjp(const VjpCall& call) {
  const Attributes& a = call.node.attributes;
  if (a.flag("equal"))
    return {own_part(call.grads[0], static_cast<Axis>(a.integer("axis")), a.integer("dim"),
                     a.integer("ranks"))};
  return {reduce_scatter(wide(call.grads[0]), static_cast<Axis>(a.integer("axis")),
                         a.integer("dim"), a.integer("ranks"))};
}
std::vector<Value> reduce_scatter_vjp(const VjpCall& call) {
  const Attributes& a = call.node.attributes;
  return {all_gather(call.grads[0], static_cast<Axis>(a.integer("axis")), a.integer("dim"),
                     a.integer("ranks"))};
}
std::vector<Value> all_to_all_vjp(const VjpCall& call) {
  const Attributes& a = call.node.attributes;
  return {all_to_all(call.grads[0], static_cast<Axis>(a.integer("axis")), a.integer("concat_dim"),
                     a.integer("split_dim"), a.integer("ranks"))};
}
std::vector<Value> permute_vjp(const VjpCall& call) {
  const auto& target = call.node.attributes.list("target_of_rank");
  std::vector<int64_t> source(target.size());
  for (size_t i = 0; i < target.size(); ++i)
    source[static_cast<size_t>(target[i])] = static_cast<int64_t>(i);
  return {permute(call.grads[0], static_cast<Axis>(call.node.attributes.integer("axis")), source)};
}

constexpr OpDef kCollectiveOps[] = {
    {.name = "vary",
     .infer = vary_types,
     .vjp = vary_vjp,
     .own_axes = true,
     .repeat = Repeat::always},
    {.name = "all_reduce", .infer = all_reduce_types, .vjp = all_reduce_vjp, .own_axes = true},
    {.name = "all_reduce_max",
     .infer = all_reduce_types,
     .vjp = all_reduce_max_vjp,
     .own_axes = true},
    {.name = "all_gather",
     .infer = all_gather_types,
     .vjp = all_gather_vjp,
     .own_axes = true,
     .repeat = Repeat::always},
    {.name = "reduce_scatter",
     .infer = reduce_scatter_types,
     .vjp = reduce_scatter_vjp,
     .own_axes = true},
    {.name = "all_to_all", .infer = all_to_all_types, .vjp = all_to_all_vjp, .own_axes = true},
    {.name = "permute", .infer = permute_types, .vjp = permute_vjp, .own_axes = true},
    {.name = "axis_index",
     .infer = axis_index_types,
     .stops_gradient = true,
     .own_axes = true,
     .repeat = Repeat::always},
};

int64_t number(Axis axis) {
  return static_cast<int64_t>(axis);
}

} // namespace

namespace ops {
std::span<const OpDef> collective_ops() {
  return kCollectiveOps;
}
} // namespace ops

Value vary(Value x, AxisSet axes) {
  axes = axes.without(x.type().axes);
  if (axes.empty()) return x;
  return apply("vary", {x}, {{"axes", axis_list(axes)}});
}

Value all_reduce(Value x, AxisSet axes) {
  if (axes.empty()) return x;
  return apply("all_reduce", {x}, {{"axes", axis_list(axes)}});
}

Value all_reduce_max(Value x, AxisSet axes) {
  if (axes.empty()) return x;
  return apply("all_reduce_max", {x}, {{"axes", axis_list(axes)}});
}

Value all_gather(Value x, Axis axis, int64_t dim, int64_t ranks, bool equal) {
  dim = normal_axis("all_gather", x.shape(), dim);
  return apply("all_gather", {x},
               {{"axis", number(axis)}, {"dim", dim}, {"ranks", ranks}, {"equal", equal}});
}

Value own_part(Value x, Axis axis, int64_t dim, int64_t ranks) {
  dim = normal_axis("own_part", x.shape(), dim);
  const int64_t extent = x.dim(dim);
  if (ranks < 1 || extent % ranks != 0) {
    fail(Code::invalid_argument, "[own_part] axis {} of {} does not divide by {} ranks", dim,
         x.type().text(), ranks);
  }
  Graph& graph = *x.graph;
  const int64_t own = extent / ranks;
  std::vector<Value> begin(static_cast<size_t>(x.rank()), scalar_i32(graph, 0));
  begin[static_cast<size_t>(dim)] =
      multiply(axis_index(graph, axis), scalar_i32(graph, static_cast<int32_t>(own)));
  return dynamic_slice(x, begin, x.shape().with_dim(dim, own).dims());
}

Value reduce_scatter(Value x, Axis axis, int64_t dim, int64_t ranks) {
  dim = normal_axis("reduce_scatter", x.shape(), dim);
  return apply("reduce_scatter", {x}, {{"axis", number(axis)}, {"dim", dim}, {"ranks", ranks}});
}

Value all_to_all(Value x, Axis axis, int64_t split_dim, int64_t concat_dim, int64_t ranks) {
  split_dim = normal_axis("all_to_all", x.shape(), split_dim);
  concat_dim = normal_axis("all_to_all", x.shape(), concat_dim);
  return apply("all_to_all", {x},
               {{"axis", number(axis)},
                {"split_dim", split_dim},
                {"concat_dim", concat_dim},
                {"ranks", ranks}});
}

Value permute(Value x, Axis axis, std::vector<int64_t> target_of_rank) {
  return apply("permute", {x},
               {{"axis", number(axis)}, {"target_of_rank", std::move(target_of_rank)}});
}

Value axis_index(Graph& graph, Axis axis) {
  return graph.add(find_op("axis_index"), {}, {{"axis", number(axis)}})[0];
}

} // namespace dllm::graph
