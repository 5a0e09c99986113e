#pragma once
// Sends rows to the ranks that have their experts, and sums the results. Each rank has some experts
// of a layer (axis expert). A rank computes its experts for all rows of its group, and the partial
// results are summed.
//
// Let a group have m ranks and r rows of h numbers in f32. A rank sends 4 r h (m - 1) / m bytes to
// the experts, and as many are returned. An all_to_all of the c choices of each row would need c
// times the room. A graph has fixed shapes and must not drop a row.

#include "graph/graph.h"
#include "model/network/linear.h"

namespace dllm::model {

struct ExpertRows {
  graph::Value rows; // f32(rows, hidden)
  // i32(rows, choices). A number outside of this rank's range means an expert on another rank.
  graph::Value experts;
  graph::Value shares; // f32(rows, choices)
};

// Returns the rows that this rank computes for its group. Where rows are cut over axis expert, the
// result has the rows of all ranks of the axis. Expert numbers count from the first expert of this
// rank. Returns `own` unchanged where `matrices` are not cut over the axis.
ExpertRows send_to_experts(const Linear& matrices, const ExpertRows& own);
// Sums the results of all ranks: (rows sent, hidden), summed over this rank's experts, becomes (own
// rows, hidden), summed over all experts. `own` is the value that was passed to send_to_experts().
graph::Value return_from_experts(const Linear& matrices, graph::Value mixed, const ExpertRows& own);

} // namespace dllm::model
