#pragma once
// What the emitter of an operation sees: its node, its operands, and ways to write lines.

#include "graph/graph.h"
#include "graph/op.h"
#include "pjrt/emit/emit.h"
#include "pjrt/emit/writer.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace dllm::pjrt::hlo {

// The values of one graph while its nodes are written into one region, and what an emitter sees of
// a node.

// One graph value. A truth value (u8 in graphs) that came from a comparison is kept as i1 and
// becomes 0 or 1 only where the number is needed.
struct Slot {
  Ssa plain;  // of the value's own type
  Ssa truth;  // i1, exactly the value: u8 0 or 1
  Ssa test;   // i1: value != 0, of a u8 value
  Ssa narrow; // bf16 of which an f32 value is the widening
};

class Scope {
public:
  Scope(const graph::Graph& graph, Writer& writer, const EmitOptions& options)
      : graph_(graph), w_(writer), options_(options),
        slots_(static_cast<size_t>(graph.value_count())) {}

  // Writes every node; inputs in the order of graph.inputs().
  void write(const std::vector<Slot>& inputs);

  Ssa plain(int32_t value);     // the value itself, made from i1 if need be
  Ssa predicate(int32_t value); // i1: value != 0
  Slot& slot(int32_t value) { return slots_[static_cast<size_t>(value)]; }
  Ssas plain_outputs();

  const graph::Graph& graph() const { return graph_; }
  Writer& writer() { return w_; }
  const EmitOptions& options() const { return options_; }

private:
  const graph::Graph& graph_;
  Writer& w_;
  const EmitOptions& options_;
  std::vector<Slot> slots_;
};

// A node about to be written.
class EmitCall {
public:
  EmitCall(Scope& scope, const graph::Node& node)
      : w(scope.writer()), node(node), a(node.attributes), scope_(scope) {}

  Writer& w;
  const graph::Node& node;
  const graph::Attributes& a;

  Ssa in(size_t index) { return scope_.plain(node.inputs[index]); }
  Ssa predicate(size_t index) { return scope_.predicate(node.inputs[index]); }
  // i1 where the operand is known to be 0 or 1 and is not there as a number: for operations that
  // only move elements.
  Ssa moved(size_t index);
  bool is_truth(size_t index) { return slot(index).truth.defined(); }
  Slot& slot(size_t index) { return scope_.slot(node.inputs[index]); }
  Type out_type(size_t index = 0) const;
  // i1 is taken as the truth form of a u8 result.
  void out(size_t index, const Ssa& value);
  void out(const Ssa& value) { out(0, value); }
  Slot& out_slot(size_t index) { return scope_.slot(node.outputs[index]); }

  const EmitOptions& options() const { return scope_.options(); }
  Scope& scope() { return scope_; }
  // The node that makes an operand, or null for an input of the graph.
  const graph::Node* producer(size_t index) const;
  // The one number an integer operand consists of, when it is written in the graph.
  std::optional<int64_t> same_integer(size_t index) const;

private:
  Scope& scope_;
};

// Short names for the operations of StableHLO that emitters use all the time. Binary functions take
// operands of one type; `like` versions make the number they need themselves.

namespace build {

enum class Order { eq, ne, lt, le, gt, ge };

Ssa unary(Writer& w, std::string_view name, const Ssa& x);                // "negate"
Ssa binary(Writer& w, std::string_view name, const Ssa& x, const Ssa& y); // "add"
Ssa number_like(Writer& w, const Ssa& x, double value);                   // splat of x's type
Ssa with(Writer& w, std::string_view name, const Ssa& x, double value);   // x op value

Ssa compare(Writer& w, Order order, const Ssa& x, const Ssa& y); // i1
Ssa compare_with(Writer& w, Order order, const Ssa& x, double value);
Ssa is_nan(Writer& w, const Ssa& x);
Ssa select(Writer& w, const Ssa& predicate, const Ssa& yes, const Ssa& no);

Ssa convert(Writer& w, const Ssa& x, Element element); // x itself when it is that already
Ssa bitcast(Writer& w, const Ssa& x, Element element);

Ssa iota(Writer& w, const Type& type, int64_t axis);
Ssa reshape(Writer& w, const Ssa& x, const Shape& shape); // x itself when it has it already
Ssa broadcast(Writer& w, const Ssa& x, const Shape& shape, const std::vector<int64_t>& axes);
Ssa slice(Writer& w, const Ssa& x, const std::vector<int64_t>& begin,
          const std::vector<int64_t>& end);
Ssa slice_axis(Writer& w, const Ssa& x, int64_t axis, int64_t begin, int64_t end);
Ssa pad(Writer& w, const Ssa& x, const Ssa& fill, const std::vector<int64_t>& low,
        const std::vector<int64_t>& high);
// `name` joins two elements; init: the bits it starts from.
Ssa reduce(Writer& w, std::string_view name, const Ssa& x, uint64_t init,
           const std::vector<int64_t>& axes);
// The region {(a, b): a op b} of reductions, scatters and collectives.
Region joining(Writer& w, std::string_view name, Element element);

} // namespace build

// Writes one operation.

using Emitter = void (*)(EmitCall&);

// Null: the operation has no StableHLO form and must be lowered first.
Emitter find_emitter(std::string_view op);

struct EmitterEntry {
  std::string_view op;
  Emitter emit;
};
// Every file of ops/ gives the list of its operations; registry.cpp joins them.
using EmitterList = std::span<const EmitterEntry>;

// Pieces that some emitters share.
namespace ops {

// Rows of the first axis, and elements along one: indices are clamped.
Ssa take_rows(Writer& w, const Ssa& table, const Ssa& indices);
Ssa take_along(Writer& w, const Ssa& x, const Ssa& indices, int64_t axis);
// One row of the first axis, read and replaced; index i32().
Ssa read_row(Writer& w, const Ssa& stacked, const Ssa& index);
Ssa write_row(Writer& w, const Ssa& stacked, const Ssa& row, const Ssa& index);
void emit_same(EmitCall& call); // the operand itself

} // namespace ops

} // namespace dllm::pjrt::hlo
