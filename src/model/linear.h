#pragma once
// A product with a parameter. Attention, MLP, experts, head and time conditioning build theirs here, so that weight
// formats, adapters and partitions are met in one place.

#include "graph/graph.h"
#include "model/param_map.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::model {

// LoRA (Hu et al. 2021): y += factor (x down^T) up^T. For experts both have a leading axis.
struct Adapter {
  graph::Value down; // (rank, in)
  graph::Value up;   // (out, rank)
  float factor = 1;  // alpha / rank
};

struct Linear {
  graph::Value weight; // (out, in) or (experts, out, in), in any weight format
  graph::Value bias;   // f32(out) or undefined
  graph::Value scale;  // f32(out) for int8, or undefined
  std::vector<Adapter> adapters;
  Partition partition;
};

// One parameter of a graph with what its ParamSpec says of it.
struct NamedParam {
  graph::Value value; // undefined: there is none of that name
  float factor = 1;
  Partition partition;
};
using ParamLookup = std::function<NamedParam(const std::string& name)>;

// The parameters "q", "q.bias" and "q.scale" as one, with "<adapter>/q.lora_a" and "<adapter>/q.lora_b" of each of
// `adapters`; weight is undefined when there is no "q".
Linear find_linear(const ParamLookup& find, const std::string& name,
                   const std::vector<std::string>& adapters);

// The same with its weight put together over axis fsdp, as products with x want it.
Linear gathered(const Linear& linear, graph::Value x);
// The same with weight, bias and scale put together over all axes: for uses that need every output on every rank.
// REQUIRES: no adapters, not cut along the inputs.
Linear whole(const Linear& linear, graph::Value x);

// x (.., in) -> (.., out); of a linear cut by columns this rank's part of the outputs.
graph::Value product(const Linear& linear, graph::Value x);
// x (rows, in), experts i32(rows, choices) -> (rows, choices, out); zeros where `experts` is none of the
// matrices here. REQUIRES: no bias, not cut over axis tensor.
graph::Value expert_product(const Linear& linear, graph::Value x, graph::Value experts);

} // namespace dllm::model
