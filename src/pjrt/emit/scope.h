#pragma once
// The values of one graph while its nodes are written into one region, and what an emitter sees of
// a node.

#include "graph/graph.h"
#include "graph/op.h"
#include "pjrt/emit/emit.h"
#include "pjrt/emit/writer.h"

#include <optional>
#include <vector>

namespace dllm::pjrt::hlo {

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

} // namespace dllm::pjrt::hlo
