#pragma once
// The gated delta rule (Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks") and the short convolution before it, as
// graphs. One state S (key_dim, value_dim) a head; for every position
//   S <- exp(g) S,  S <- S + k (beta (v - S' k))',  o = S' q.

#include "graph/graph.h"

#include <cstdint>

namespace dllm::model {

// Positions that are computed together.
constexpr int64_t kDeltaChunk = 32;

struct DeltaInputs {
  graph::Value q, k;  // f32(batch, seq, heads, key_dim), as the rule reads them: scaled
  graph::Value v;     // f32(batch, seq, heads, value_dim)
  graph::Value g;     // f32(batch, seq, heads), not above 0: logarithm of the decay
  graph::Value beta;  // f32(batch, seq, heads)
  graph::Value state; // f32(batch, heads, key_dim, value_dim) before the first position
  graph::Value
      length; // i32(batch), or undefined: positions after which `state` of the result stands
  graph::Value
      segments; // i32(batch, seq), or undefined: a row of several texts, each begins with zeros
};
struct DeltaOutputs {
  graph::Value out;   // f32(batch, seq, heads, value_dim)
  graph::Value state; // as DeltaInputs::state, after `length` positions or all
};
// Exact for any chunk; chunk 1 is the recurrence itself.
DeltaOutputs delta_rule(const DeltaInputs& inputs, int64_t chunk = kDeltaChunk);
// x / sqrt(sum of x^2 + 1e-6) over the last axis.
graph::Value unit_rows(graph::Value x);

// Each channel for itself: y_t = sum over j of weight[:, j] x_(t - width + 1 + j). x (batch, width - 1 + seq, channels),
// the rows before the window first; weight (channels, width); segments as above. -> (batch, seq, channels)
graph::Value causal_convolution(graph::Value x, graph::Value weight, graph::Value segments);

} // namespace dllm::model
