#pragma once
// Rows on their way to the ranks that have their experts, and back. A rank has some of the experts of a layer (axis
// expert). It computes them for all rows of its group, and the parts are summed.
//
// Of r rows in a group of m ranks, h wide in f32, a rank sends 4 r h (m - 1) / m bytes there and as many back. all_to_all of
// each row's c choices would need room for c times that: a graph has fixed shapes, and no row may be dropped.

#include "graph/graph.h"
#include "model/linear.h"

namespace dllm::model {

struct ExpertRows {
  graph::Value rows;    // f32(rows, hidden)
  graph::Value experts; // i32(rows, choices); outside of this rank's experts: none here
  graph::Value shares;  // f32(rows, choices)
};

// What this rank computes for its group: where rows are cut over axis expert, those of all its ranks; numbers of experts
// count from the first one that it has. `own` unchanged where `matrices` are not cut over the axis.
ExpertRows send_to_experts(const Linear& matrices, const ExpertRows& own);
// (rows sent, hidden), sums over this rank's experts -> (own rows, hidden), over all. own: as they were sent.
graph::Value return_from_experts(const Linear& matrices, graph::Value mixed, const ExpertRows& own);

} // namespace dllm::model
