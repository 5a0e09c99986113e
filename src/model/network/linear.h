#pragma once
// Multiplies with a parameter. Attention, MLP, experts, head and time conditioning build their
// products here, so weight formats, adapters and partitions are handled in one place.

#include "graph/graph.h"
#include "model/params/param_map.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// Sets a part of the inputs of an adapter to 0, and divides the others by 1 - rate. The bits of a
// row depend on its key, the adapter's name and the place in the row alone.
struct Dropout {
  float rate = 0;
  graph::Value keys; // u32(batch, 2): of each row of the batch, for this layer; undefined: off
};

struct AdapterKind; // model/adapters/kinds/adapter_kind.h

// One parameter of a graph, with the factor and partition of its ParamSpec.
struct NamedParam {
  graph::Value value; // undefined: no parameter has the name
  float factor = 1;
  Partition partition = {};
};

// What an adapter has for one product.
struct Adapter {
  const AdapterKind* kind = nullptr;
  std::map<std::string, NamedParam, std::less<>> tensors = {}; // by suffix: ".lora_a"
  std::string name = {};                                       // "adapter:math/q", in a layer
  int64_t slot = 0; // number of the adapter in Linear::choice, from 1
  Dropout dropout = {};

  NamedParam tensor(std::string_view suffix) const; // undefined value: there is none
};

// An adapter that a pass reads.
struct NamedAdapter {
  std::string part; // "adapter:math"
  const AdapterKind* kind;
};

struct Linear {
  graph::Value weight; // (out, in) or (experts, out, in), in any weight format
  graph::Value bias;   // f32(out) or undefined
  graph::Value scale;  // f32(out) for int8, or undefined
  std::vector<Adapter> adapters;
  Partition partition;
  // i32(batch): the slot of the adapter that each row of the batch has, 0: none. Undefined: every
  // row has all adapters.
  graph::Value choice = {};
  int64_t slots = 1; // of all adapters of the pass, and 0
};

using ParamLookup = std::function<NamedParam(const std::string& name)>;

// Combines the parameters "q", "q.bias" and "q.scale", and of each of `adapters` the tensors of its
// kind, such as "<adapter>/q.lora_a". The weight is undefined when there is no "q".
Linear find_linear(const ParamLookup& find, const std::string& name,
                   const std::vector<NamedAdapter>& adapters);

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

// For kinds of adapters.

graph::Value scaled(graph::Value y, float factor);
// Returns true when ranks multiply parts of the inputs, whose results are added.
bool is_summed(const Linear& linear);
// Returns the inputs of an adapter, which are x with its dropout.
graph::Value adapter_input(const Linear& linear, const Adapter& adapter, graph::Value x);

} // namespace dllm::model
