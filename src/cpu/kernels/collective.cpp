// Collective operations between ranks. Along axes of one rank they are views. Otherwise the
// communicator of the run moves whole pieces. A dimension that is not the outermost one is packed
// into pieces before the exchange and joined after it.

#include "base/error.h"
#include "cpu/kernel.h"
#include "cpu/memory.h"
#include "graph/op.h"

#include <string_view>

namespace dllm::cpu {
namespace {

using graph::Axis;
using graph::AxisSet;

// A dimension of one piece per rank, stored as (outer, ranks, piece).
struct RankPieces {
  int64_t outer = 1;
  int64_t ranks = 1;
  int64_t piece = 0;                              // bytes
  int64_t bytes() const { return outer * piece; } // bytes of one rank
};

// Returns the pieces of dimension `dim`. `shape` is the shape of one rank's piece.
RankPieces pieces_of(const Shape& shape, DType dtype, int64_t dim, int64_t ranks) {
  RankPieces pieces{1, ranks, dtype_size(dtype)};
  for (int64_t i = 0; i < dim; ++i) pieces.outer *= shape.dim(i);
  for (int64_t i = dim; i < shape.rank(); ++i) pieces.piece *= shape.dim(i);
  return pieces;
}

// (outer, ranks, piece) -> (ranks, outer, piece)
void pack_pieces(const std::byte* joined, std::byte* packed, const RankPieces& p,
                 const Task* task) {
  for (int64_t r = 0; r < p.ranks; ++r) {
    for (int64_t o = 0; o < p.outer; ++o)
      copy_in_pieces(packed + (r * p.outer + o) * p.piece, joined + (o * p.ranks + r) * p.piece,
                     p.piece, task);
  }
}

// (ranks, outer, piece) -> (outer, ranks, piece)
void join_pieces(const std::byte* packed, std::byte* joined, const RankPieces& p,
                 const Task* task) {
  for (int64_t r = 0; r < p.ranks; ++r) {
    for (int64_t o = 0; o < p.outer; ++o)
      copy_in_pieces(joined + (o * p.ranks + r) * p.piece, packed + (r * p.outer + o) * p.piece,
                     p.piece, task);
  }
}

Kernel same_array() {
  Kernel kernel;
  kernel.is_view = true;
  return kernel;
}

Axis mesh_axis_of(const CompileInfo& info) {
  return static_cast<Axis>(info.node.attributes.integer("axis"));
}

// Fails unless the graph was made for as many ranks as the mesh has along the node's axis.
void expect_ranks_of_mesh(const CompileInfo& info, int64_t ranks) {
  const int64_t given = info.place.mesh.size(mesh_axis_of(info));
  if (given == ranks) return;
  if (info.place.is_single()) {
    fail_with_hint("compile for a mesh, with an engine that is one of its ranks",
                   Code::unimplemented, "[{}] over {} ranks in graph {}: the cpu engine has one",
                   info.node.op->name, ranks, info.graph.name());
  }
  fail(Code::invalid_argument, "[{}] in graph {} is for {} ranks along {}, the mesh has {}",
       info.node.op->name, info.graph.name(), ranks, graph::axis_name(mesh_axis_of(info)), given);
}

std::vector<int64_t> group_along_axis(const CompileInfo& info) {
  return info.place.mesh.group_of(info.place.rank, AxisSet(mesh_axis_of(info)));
}

// all_reduce, all_reduce_max
Kernel make_all_reduce(const CompileInfo& info) {
  AxisSet axes;
  for (const int64_t axis : info.node.attributes.list("axes"))
    axes = axes.with(AxisSet(static_cast<Axis>(axis)));
  const std::vector<int64_t> group = info.place.mesh.group_of(info.place.rank, axes);
  if (group.size() == 1) return same_array();
  const auto reduction = std::string_view(info.node.op->name) == "all_reduce"
                             ? comm::Reduction::sum
                             : comm::Reduction::max;
  const DType dtype = info.input(0).dtype;
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    call.communicator->all_reduce(group, reduction, dtype, call.inputs[0].data,
                                  call.outputs[0].data, count, call.pool.task);
  };
  return kernel;
}

Kernel make_all_gather(const CompileInfo& info) {
  const int64_t ranks = info.node.attributes.integer("ranks");
  expect_ranks_of_mesh(info, ranks);
  if (ranks == 1) return same_array();
  const std::vector<int64_t> group = group_along_axis(info);
  const graph::ValueType& x = info.input(0);
  const RankPieces pieces = pieces_of(x.shape, x.dtype, info.node.attributes.integer("dim"), ranks);
  Kernel kernel;
  if (pieces.outer > 1) kernel.scratch_bytes = ranks * pieces.bytes();
  kernel.run = [=](const KernelCall& call) {
    const bool direct = pieces.outer <= 1;
    std::byte* packed = direct ? call.outputs[0].data : call.scratch;
    call.communicator->all_gather(group, call.inputs[0].data, packed, pieces.bytes(),
                                  call.pool.task);
    if (!direct) join_pieces(packed, call.outputs[0].data, pieces, call.pool.task);
  };
  return kernel;
}

Kernel make_reduce_scatter(const CompileInfo& info) {
  const int64_t ranks = info.node.attributes.integer("ranks");
  expect_ranks_of_mesh(info, ranks);
  if (ranks == 1) return same_array();
  const std::vector<int64_t> group = group_along_axis(info);
  const graph::ValueType& y = info.output(0);
  const RankPieces pieces = pieces_of(y.shape, y.dtype, info.node.attributes.integer("dim"), ranks);
  const DType dtype = y.dtype;
  const int64_t count = y.shape.count();
  Kernel kernel;
  if (pieces.outer > 1) kernel.scratch_bytes = ranks * pieces.bytes();
  kernel.run = [=](const KernelCall& call) {
    const std::byte* packed = call.inputs[0].data;
    if (pieces.outer > 1) {
      pack_pieces(packed, call.scratch, pieces, call.pool.task);
      packed = call.scratch;
    }
    call.communicator->reduce_scatter(group, comm::Reduction::sum, dtype, packed,
                                      call.outputs[0].data, count, call.pool.task);
  };
  return kernel;
}

Kernel make_all_to_all(const CompileInfo& info) {
  const int64_t ranks = info.node.attributes.integer("ranks");
  expect_ranks_of_mesh(info, ranks);
  if (ranks == 1) return same_array();
  const std::vector<int64_t> group = group_along_axis(info);
  const graph::ValueType& x = info.input(0);
  const int64_t split = info.node.attributes.integer("split_dim");
  const Shape piece = x.shape.with_dim(split, x.shape.dim(split) / ranks);
  const RankPieces given = pieces_of(piece, x.dtype, split, ranks);
  const RankPieces made =
      pieces_of(piece, x.dtype, info.node.attributes.integer("concat_dim"), ranks);
  const int64_t whole = align_up(ranks * given.bytes());
  const bool packs = given.outer > 1, joins = made.outer > 1;
  Kernel kernel;
  kernel.scratch_bytes = whole * ((packs ? 1 : 0) + (joins ? 1 : 0));
  kernel.run = [=](const KernelCall& call) {
    const std::byte* sent = call.inputs[0].data;
    if (packs) {
      pack_pieces(sent, call.scratch, given, call.pool.task);
      sent = call.scratch;
    }
    std::byte* received = joins ? call.scratch + (packs ? whole : 0) : call.outputs[0].data;
    call.communicator->all_to_all(group, sent, received, given.bytes(), call.pool.task);
    if (joins) join_pieces(received, call.outputs[0].data, made, call.pool.task);
  };
  return kernel;
}

Kernel make_permute(const CompileInfo& info) {
  const std::vector<int64_t> target = info.node.attributes.list("target_of_rank");
  expect_ranks_of_mesh(info, static_cast<int64_t>(target.size()));
  if (target.size() <= 1) return same_array();
  const std::vector<int64_t> group = group_along_axis(info);
  const graph::ValueType& x = info.input(0);
  const int64_t bytes = x.shape.count() * dtype_size(x.dtype);
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    call.communicator->permute(group, target, call.inputs[0].data, call.outputs[0].data, bytes,
                               call.pool.task);
  };
  return kernel;
}

Kernel make_axis_index(const CompileInfo& info) {
  const auto index = static_cast<int32_t>(info.place.index(mesh_axis_of(info)));
  Kernel kernel;
  kernel.run = [index](const KernelCall& call) { *call.outputs[0].out<int32_t>() = index; };
  return kernel;
}

constexpr KernelEntry kCollectiveKernels[] = {
    {"all_gather", make_all_gather},         {"all_reduce", make_all_reduce},
    {"all_reduce_max", make_all_reduce},     {"all_to_all", make_all_to_all},
    {"axis_index", make_axis_index},         {"permute", make_permute},
    {"reduce_scatter", make_reduce_scatter},
};

} // namespace

KernelList collective_kernels() {
  return kCollectiveKernels;
}

} // namespace dllm::cpu
