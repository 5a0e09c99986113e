#pragma once
// The gated delta rule (Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks") and the short
// convolution before it, as graphs. Each head has one state S (key_dim, value_dim). Every position
// computes
//   S <- exp(g) S,  S <- S + k (beta (v - S' k))',  o = S' q.

#include "graph/graph.h"

#include <cstdint>

namespace dllm::model {

// The number of positions in a chunk; a chunk is computed at once.
constexpr int64_t kDeltaChunk = 32;

struct DeltaInputs {
  graph::Value q, k;  // f32(batch, seq, heads, key_dim), scaled as the rule reads them
  graph::Value v;     // f32(batch, seq, heads, value_dim)
  graph::Value g;     // f32(batch, seq, heads), at most 0: logarithm of the decay
  graph::Value beta;  // f32(batch, seq, heads)
  graph::Value state; // f32(batch, heads, key_dim, value_dim) before the first position
  // i32(batch), or undefined: the resulting state is the one after `length` positions.
  graph::Value length;
  // i32(batch, seq), or undefined: a row may hold several texts, and each begins with a state of 0.
  graph::Value segments;
};
struct DeltaOutputs {
  graph::Value out;   // f32(batch, seq, heads, value_dim)
  graph::Value state; // as DeltaInputs::state, after `length` positions or after all
};
// Computes the rule. The result is exact for any chunk size; with chunk 1 it is the recurrence
// itself.
DeltaOutputs delta_rule(const DeltaInputs& inputs, int64_t chunk = kDeltaChunk);
// Returns x / sqrt(sum of x^2 + 1e-6), summed over the last axis.
graph::Value unit_rows(graph::Value x);

// Convolves each channel on its own: y_t = sum over j of weight[:, j] x_(t - width + 1 + j). `x` is
// (batch, width - 1 + seq, channels) and begins with the rows before the window. `weight` is
// (channels, width), `segments` as in DeltaInputs. Returns (batch, seq, channels).
graph::Value causal_convolution(graph::Value x, graph::Value weight, graph::Value segments);

} // namespace dllm::model
