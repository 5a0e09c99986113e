#pragma once
// Multiplies with a parameter. Attention, MLP, experts, head and time conditioning build their
// products here, so weight formats, adapters and partitions are handled in one place.

#include "graph/graph.h"
#include "model/params/param_map.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::model {

// Sets a part of the inputs of an adapter to 0, and divides the others by 1 - rate. The bits of a
// row depend on its key, the adapter's name and the place in the row alone.
struct Dropout {
  float rate = 0;
  graph::Value keys; // u32(batch, 2): of each row of the batch, for this layer; undefined: off
};

// LoRA (Hu et al. 2021): y += factor (x down^T) up^T. For experts both matrices have a leading
// axis. With a magnitude it is DoRA (Liu et al. 2024), as in PEFT: V = W + factor up down, and
// y += share x (m / |V| V - W)^T, where |V| is the norm of each row and has no gradient.
struct Adapter {
  graph::Value down;      // (rank, in)
  graph::Value up;        // (out, rank)
  float factor = 1;       // alpha / rank, and for LoRA the scale of the adapter
  graph::Value magnitude; // m, f32(out); undefined: LoRA
  float share = 1;        // the scale of the adapter, for DoRA
  std::string name = {};  // "adapter:math/q", with the names of a layer
  Dropout dropout = {};   // of the inputs of `down`
};

struct Linear {
  graph::Value weight; // (out, in) or (experts, out, in), in any weight format
  graph::Value bias;   // f32(out) or undefined
  graph::Value scale;  // f32(out) for int8, or undefined
  std::vector<Adapter> adapters;
  Partition partition;
};

// One parameter of a graph, with the factor and partition of its ParamSpec.
struct NamedParam {
  graph::Value value; // undefined: no parameter has the name
  float factor = 1;
  Partition partition;
};
using ParamLookup = std::function<NamedParam(const std::string& name)>;

// Combines the parameters "q", "q.bias" and "q.scale", and of each of `adapters`
// "<adapter>/q.lora_a", "<adapter>/q.lora_b" and "<adapter>/q.lora_m". The weight is undefined when
// there is no "q".
Linear find_linear(const ParamLookup& find, const std::string& name,
                   const std::vector<std::string>& adapters);

// Returns the linear with its weight gathered over axis fsdp, as products with x need it.
Linear gathered(const Linear& linear, graph::Value x);
// Returns the linear with weight, bias and scale gathered over all axes, for uses that need every
// output on every rank. REQUIRES: no adapters, not cut along the inputs.
Linear whole(const Linear& linear, graph::Value x);

// Returns x (.., in) -> (.., out). Of a linear that is cut by columns it returns this rank's
// outputs.
graph::Value product(const Linear& linear, graph::Value x);
// Returns x (rows, in), experts i32(rows, choices) -> (rows, choices, out). The result is 0 for
// experts whose matrix is not on this rank. REQUIRES: no bias, not cut over axis tensor.
graph::Value expert_product(const Linear& linear, graph::Value x, graph::Value experts);

} // namespace dllm::model
