// Emitters of operations that only move elements (truth values stay i1), and of reads and writes of
// rows and elements by index.
#include "pjrt/emit/emit.h"

#include <fmt/format.h>

namespace dllm::pjrt::hlo::ops {

// Graphs broadcast by numpy's rule: trailing axes align, an extent of 1 repeats. StableHLO also
// needs the axis of the result that each axis of x becomes.
static void emit_broadcast(EmitCall& call) {
  const Ssa x = call.moved(0);
  const Shape shape = call.out_type().shape;
  if (x.shape() == shape) return call.out(x);
  const int64_t extra = shape.rank() - x.shape().rank();
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.shape().rank(); ++i) axes.push_back(extra + i);
  call.out(build::broadcast(call.w, x, shape, axes));
}

static void emit_reshape(EmitCall& call) {
  call.out(build::reshape(call.w, call.moved(0), call.out_type().shape));
}

static void emit_transpose(EmitCall& call) {
  const Ssa x = call.moved(0);
  call.out(call.w.op1("stablehlo.transpose", {x}, {x.element(), call.out_type().shape},
                      "permutation = " + array_text(call.a.list("permutation"))));
}

static void emit_slice(EmitCall& call) {
  call.out(build::slice(call.w, call.moved(0), call.a.list("begin"), call.a.list("end")));
}

static void emit_pad(EmitCall& call) {
  const Ssa x = call.in(0), fill = call.in(1);
  call.out(build::pad(call.w, x, fill, call.a.list("low"), call.a.list("high")));
}

static void emit_concat(EmitCall& call) {
  bool truths = true;
  for (size_t i = 0; i < call.node.inputs.size(); ++i) truths = truths && call.is_truth(i);
  Ssas parts;
  for (size_t i = 0; i < call.node.inputs.size(); ++i)
    parts.push_back(truths ? call.predicate(i) : call.in(i));
  call.out(call.w.op1("stablehlo.concatenate", parts, {parts[0].element(), call.out_type().shape},
                      fmt::format("dimension = {} : i64", call.a.integer("axis"))));
}

static void emit_reverse(EmitCall& call) {
  const Ssa x = call.moved(0);
  call.out(call.w.op1("stablehlo.reverse", {x}, x.type,
                      "dimensions = " + array_text({call.a.integer("axis")})));
}

// StableHLO clamps the begins so that the window fits, as graphs do.
static void emit_dynamic_slice(EmitCall& call) {
  Ssas operands;
  for (size_t i = 0; i < call.node.inputs.size(); ++i) operands.push_back(call.in(i));
  call.out(call.w.op1("stablehlo.dynamic_slice", operands, call.out_type(),
                      "slice_sizes = " + array_text(call.a.list("size"))));
}

static void emit_dynamic_update_slice(EmitCall& call) {
  Ssas operands;
  for (size_t i = 0; i < call.node.inputs.size(); ++i) operands.push_back(call.in(i));
  call.out(call.w.op1("stablehlo.dynamic_update_slice", operands, call.out_type()));
}

EmitterList movement_emitters() {
  static constexpr EmitterEntry kMovementEmitters[] = {
      {"broadcast", emit_broadcast},
      {"concat", emit_concat},
      {"dynamic_slice", emit_dynamic_slice},
      {"dynamic_update_slice", emit_dynamic_update_slice},
      {"pad", emit_pad},
      {"reshape", emit_reshape},
      {"reverse", emit_reverse},
      {"slice", emit_slice},
      {"transpose", emit_transpose},
  };
  return kMovementEmitters;
}

// take and take_along use StableHLO's gather, which clamps indices as graphs do.

namespace {

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> list;
  for (int64_t i = begin; i < end; ++i) list.push_back(i);
  return list;
}

} // namespace

// The result has the shape indices.shape + table.shape[1:].
Ssa take_rows(Writer& w, const Ssa& table, const Ssa& indices) {
  const int64_t rank = indices.shape().rank();
  std::vector<int64_t> sizes = table.shape().dims(), dims = indices.shape().dims();
  sizes[0] = 1;
  dims.insert(dims.end(), sizes.begin() + 1, sizes.end());
  const int64_t result_rank = static_cast<int64_t>(dims.size());
  return w.op1("stablehlo.gather", {table, indices}, {table.element(), Shape(std::move(dims))},
               fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = {}, "
                           "collapsed_slice_dims = [0], start_index_map = [0], "
                           "index_vector_dim = {}>, slice_sizes = {}, indices_are_sorted = false",
                           list_text(range(rank, result_rank)), rank, array_text(sizes)));
}

Ssa take_along(Writer& w, const Ssa& x, const Ssa& indices, int64_t axis) {
  const int64_t rank = x.shape().rank();
  std::vector<int64_t> others = range(0, rank);
  others.erase(others.begin() + axis);
  const std::string batch = list_text(others);
  return w.op1("stablehlo.gather", {x, indices}, {x.element(), indices.shape()},
               fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = [], "
                           "collapsed_slice_dims = [{0}], operand_batching_dims = {1}, "
                           "start_indices_batching_dims = {1}, start_index_map = [{0}], "
                           "index_vector_dim = {2}>, slice_sizes = {3}, indices_are_sorted = false",
                           axis, batch, rank,
                           array_text(std::vector<int64_t>(static_cast<size_t>(rank), 1))));
}

// Rows of bf16 and i8 are widened after they are read. A row of i8 is multiplied by its scale.
static void emit_take(EmitCall& call) {
  Writer& w = call.w;
  const Ssa table = call.in(0), indices = call.in(1);
  const Ssa rows = take_rows(w, table, indices);
  const Type wanted = call.out_type();
  if (rows.element() == wanted.element) return call.out(rows);
  Ssa y = build::convert(w, rows, wanted.element);
  if (call.a.flag("has_scale")) {
    const Ssa scale = take_rows(w, call.in(2), indices);
    y = build::binary(w, "multiply", y,
                      build::broadcast(w, scale, y.shape(), range(0, scale.shape().rank())));
  }
  call.out(y);
  if (table.element() == Element::bf16) call.out_slot(0).narrow = rows;
}

static void emit_take_along(EmitCall& call) {
  call.out(take_along(call.w, call.in(0), call.in(1), call.a.integer("axis")));
}

// scatter_add and scatter_set write rows of the first axis. StableHLO drops an index out of range,
// as graphs do, but does not order equal indices.

namespace {

using build::Order;

// Up to this number of rows, comparing all pairs costs less than a table over the destination.
constexpr int64_t kPairs = 256;

// Joins the rows of `updates` (m, ...) into the rows of x at `indices` (m).
Ssa scatter(Writer& w, const Ssa& x, const Ssa& indices, const Ssa& updates, bool unique,
            const Region& join) {
  std::vector<int64_t> window;
  for (int64_t i = 1; i < updates.shape().rank(); ++i) window.push_back(i);
  return w.op1("stablehlo.scatter", {x, indices, updates}, x.type,
               fmt::format("scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = "
                           "{}, inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
                           "index_vector_dim = 1>, indices_are_sorted = false, unique_indices = {}",
                           list_text(window), unique ? "true" : "false"),
               {join});
}

// Returns i1 (m): whether a later row has the same index. Compares all pairs.
Ssa overtaken_by_pairs(Writer& w, const Ssa& indices) {
  const int64_t m = indices.shape().dim(0);
  const Shape square{m, m};
  const Ssa row = build::iota(w, {Element::i32, square}, 0);
  const Ssa column = build::iota(w, {Element::i32, square}, 1);
  const Ssa later = build::compare(w, Order::gt, column, row);
  const Ssa down = build::broadcast(w, indices, square, {0});
  const Ssa across = build::broadcast(w, indices, square, {1});
  const Ssa same = build::compare(w, Order::eq, down, across);
  return build::reduce(w, "or", build::binary(w, "and", later, same), 0, {1});
}

// Returns the same by a table that has, for each row of x, the number of the last update to it.
Ssa overtaken_by_table(Writer& w, const Ssa& indices, int64_t rows) {
  const Type table{Element::i32, Shape{rows}};
  const Ssa order = build::iota(w, indices.type, 0);
  const Ssa last = scatter(w, w.number(table, -1), indices, order, false,
                           build::joining(w, "maximum", Element::i32));
  return build::compare(w, Order::ne, take_rows(w, last, indices), order);
}

} // namespace

static void emit_scatter_add(EmitCall& call) {
  const Ssa x = call.in(0);
  call.out(scatter(call.w, x, call.in(1), call.in(2), false,
                   build::joining(call.w, "add", x.element())));
}

// A row that a later row with the same index overwrites gets an index of its own after the end,
// where it is dropped. So all indices are unique, and the cost depends on the updates alone, not on
// the size of x (a KV cache).
static void emit_scatter_set(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), updates = call.in(2);
  const int64_t rows = x.shape().dim(0), m = updates.shape().dim(0);
  Ssa indices = call.in(1);
  if (rows == 0 || m == 0) return call.out(x);
  if (m > 1) {
    const Ssa overtaken =
        m <= kPairs ? overtaken_by_pairs(w, indices) : overtaken_by_table(w, indices, rows);
    const auto end = static_cast<double>(rows);
    const Ssa below = build::compare_with(w, Order::lt, indices, 0);
    const Ssa above = build::compare_with(w, Order::ge, indices, end);
    const Ssa outside = build::binary(w, "or", below, above);
    const Ssa behind = build::with(w, "add", build::iota(w, indices.type, 0), end);
    indices = build::select(w, build::binary(w, "or", overtaken, outside), behind, indices);
  }
  const Type scalar{x.element(), Shape{}};
  const Region take_new{{scalar, scalar}, [](const Ssas& a) { return Ssas{a[1]}; }};
  call.out(scatter(w, x, indices, updates, true, take_new));
}

EmitterList index_emitters() {
  static constexpr EmitterEntry kIndexEmitters[] = {
      {"scatter_add", emit_scatter_add},
      {"scatter_set", emit_scatter_set},
      {"take", emit_take},
      {"take_along", emit_take_along},
  };
  return kIndexEmitters;
}

} // namespace dllm::pjrt::hlo::ops
