// Emitters of collectives in replica mode: replica_groups come from the mesh, and there is no
// channel handle, because compilers crash on one in this mode. Over axes of one rank a collective
// copies.

#include "pjrt/emit/emit.h"

#include "base/error.h"
#include "graph/op.h"

#include <fmt/format.h>

namespace dllm::pjrt::hlo::ops {
namespace {

using graph::Axis;
using graph::AxisSet;
using graph::Mesh;

std::string groups_text(const Mesh& mesh, AxisSet axes) {
  return "replica_groups = " + table_text(mesh.groups(axes));
}

Axis axis_of(const EmitCall& call) {
  return static_cast<Axis>(call.a.integer("axis"));
}

// Returns the ranks along the node's axis. Fails with invalid_argument if the graph was made for
// another number.
int64_t ranks_of(const EmitCall& call, int64_t wanted) {
  const int64_t ranks = call.options().mesh.size(axis_of(call));
  if (ranks != wanted) {
    fail(Code::invalid_argument, "[{}] is for {} ranks along {}, the mesh has {}",
         call.node.op->name, wanted, graph::axis_name(axis_of(call)), ranks);
  }
  return ranks;
}

void reduce_over_axes(EmitCall& call, std::string_view joining) {
  const Mesh& mesh = call.options().mesh;
  AxisSet axes;
  for (const int64_t axis : call.a.list("axes")) {
    if (mesh.size(static_cast<Axis>(axis)) > 1) axes = axes.with(AxisSet(static_cast<Axis>(axis)));
  }
  if (axes.empty()) return emit_same(call);
  const Ssa x = call.in(0);
  call.out(call.w.op1("stablehlo.all_reduce", {x}, x.type, groups_text(mesh, axes),
                      {build::joining(call.w, joining, x.element())}));
}

} // namespace

static void emit_all_reduce(EmitCall& call) {
  reduce_over_axes(call, "add");
}

static void emit_all_reduce_max(EmitCall& call) {
  reduce_over_axes(call, "maximum");
}

static void emit_all_gather(EmitCall& call) {
  if (ranks_of(call, call.a.integer("ranks")) == 1) return emit_same(call);
  call.out(call.w.op1("stablehlo.all_gather", {call.in(0)}, call.out_type(),
                      fmt::format("all_gather_dim = {} : i64, {}", call.a.integer("dim"),
                                  groups_text(call.options().mesh, AxisSet(axis_of(call))))));
}

static void emit_reduce_scatter(EmitCall& call) {
  if (ranks_of(call, call.a.integer("ranks")) == 1) return emit_same(call);
  const Ssa x = call.in(0);
  call.out(call.w.op1("stablehlo.reduce_scatter", {x}, call.out_type(),
                      fmt::format("scatter_dimension = {} : i64, {}", call.a.integer("dim"),
                                  groups_text(call.options().mesh, AxisSet(axis_of(call)))),
                      {build::joining(call.w, "add", x.element())}));
}

static void emit_all_to_all(EmitCall& call) {
  const int64_t ranks = ranks_of(call, call.a.integer("ranks"));
  if (ranks == 1) return emit_same(call);
  call.out(call.w.op1(
      "stablehlo.all_to_all", {call.in(0)}, call.out_type(),
      fmt::format("split_dimension = {} : i64, concat_dimension = {} : i64, split_count = {} : "
                  "i64, {}",
                  call.a.integer("split_dim"), call.a.integer("concat_dim"), ranks,
                  groups_text(call.options().mesh, AxisSet(axis_of(call))))));
}

// Rank r of every group sends to rank target_of_rank[r] of the same group.
static void emit_permute(EmitCall& call) {
  const auto& target = call.a.list("target_of_rank");
  if (ranks_of(call, static_cast<int64_t>(target.size())) == 1) return emit_same(call);
  std::vector<std::vector<int64_t>> pairs;
  for (const auto& group : call.options().mesh.groups(AxisSet(axis_of(call)))) {
    for (size_t r = 0; r < group.size(); ++r)
      pairs.push_back({group[r], group[static_cast<size_t>(target[r])]});
  }
  call.out(call.w.op1("stablehlo.collective_permute", {call.in(0)}, call.out_type(),
                      "source_target_pairs = " + table_text(pairs)));
}

// The index is replica / stride % size. Replicas have the numbers of ranks.
static void emit_axis_index(EmitCall& call) {
  Writer& w = call.w;
  const Mesh& mesh = call.options().mesh;
  const int64_t size = mesh.size(axis_of(call));
  if (size == 1) return call.out(w.number(call.out_type(), 0));
  const auto group = mesh.groups(AxisSet(axis_of(call)))[0];
  const auto stride = static_cast<double>(group[1] - group[0]);
  const Ssa place = build::with(w, "divide", w.replica(), stride);
  const Ssa index = build::with(w, "remainder", place, static_cast<double>(size));
  call.out(build::convert(w, index, Element::i32));
}

EmitterList collective_emitters() {
  static constexpr EmitterEntry kCollectiveEmitters[] = {
      {"all_gather", emit_all_gather},         {"all_reduce", emit_all_reduce},
      {"all_reduce_max", emit_all_reduce_max}, {"all_to_all", emit_all_to_all},
      {"axis_index", emit_axis_index},         {"permute", emit_permute},
      {"reduce_scatter", emit_reduce_scatter},
  };
  return kCollectiveEmitters;
}

} // namespace dllm::pjrt::hlo::ops
