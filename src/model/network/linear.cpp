#include "model/network/linear.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/params/part.h"

#include <algorithm>
#include <vector>

namespace dllm::model {
namespace {

constexpr float kLeastSquare = 1e-30f; // of the norm of a row of zeros

graph::Value scaled(graph::Value y, float factor) {
  return factor == 1 ? y : graph::multiply(y, graph::scalar(*y.graph, factor));
}

// Returns true when ranks multiply parts of the inputs, whose results are added.
bool is_summed(const Linear& linear) {
  return linear.partition.cuts() && linear.partition.kind == PartitionKind::rows;
}

// Returns the norms of the rows of W + factor B A, f32(out).
graph::Value norms_of(const Linear& linear, const Adapter& adapter) {
  graph::Graph& graph = *linear.weight.graph;
  const int64_t out = adapter.up.dim(0);
  const graph::Value rows = graph::iota(graph, {out}, DType::i32, 0);
  const graph::Value weight = graph::take(linear.weight, rows, linear.scale); // f32
  const graph::Value sum =
      graph::add(weight, scaled(graph::dot(adapter.up, adapter.down), adapter.factor));
  graph::Value squares = graph::sum(graph::multiply(sum, sum), {1});
  if (is_summed(linear)) squares = graph::all_reduce(squares, graph::AxisSet(graph::Axis::tensor));
  return graph::stop_gradient(
      graph::sqrt(graph::maximum(squares, graph::scalar(graph, kLeastSquare))));
}

graph::Value words_of(graph::Graph& graph, uint64_t number) {
  const std::vector<uint32_t> words = {static_cast<uint32_t>(number >> 32),
                                       static_cast<uint32_t>(number)};
  return graph::constant(graph, Tensor::from(Shape{1, 2}, words));
}

// Returns f32 of the shape of x: 1 / (1 - rate) where a number is kept, else 0. `ranks` is the
// number of ranks over which the features of x are cut.
graph::Value kept_numbers(const Adapter& adapter, graph::Value x, int64_t ranks) {
  graph::Graph& graph = *x.graph;
  const Dropout& dropout = adapter.dropout;
  const int64_t batch = dropout.keys.dim(0), own = x.dim(-1), all = own * ranks;
  const graph::Value keys =
      graph::logical_xor(dropout.keys, words_of(graph, name_number(adapter.name)));
  graph::Value uniform =
      graph::random_uniform(keys, {batch, x.shape().count() / (batch * own), all});
  if (ranks > 1) uniform = graph::own_part(uniform, graph::Axis::tensor, 2, ranks);
  const graph::Value kept =
      graph::greater_equal(uniform, graph::scalar(graph, dropout.rate)); // (batch, places, own)
  return graph::multiply(graph::convert(graph::reshape(kept, x.shape()), DType::f32),
                         graph::scalar(graph, 1.0f / (1.0f - dropout.rate)));
}

// Returns the inputs of an adapter, which are x without its dropout.
graph::Value adapter_input(const Linear& linear, const Adapter& adapter, graph::Value x) {
  if (!adapter.dropout.keys.defined() || adapter.dropout.rate == 0) return x;
  const int64_t ranks = is_summed(linear) ? linear.partition.ranks : 1;
  return graph::multiply(x, kept_numbers(adapter, x, ranks));
}

// Returns what an adapter adds to the product `base` = x W^T.
graph::Value change(const Linear& linear, const Adapter& adapter, graph::Value x,
                    graph::Value base) {
  const graph::Value in = adapter_input(linear, adapter, x);
  const graph::Value low =
      scaled(graph::linear(graph::linear(in, adapter.down), adapter.up), adapter.factor);
  if (!adapter.magnitude.defined()) return low;
  // As PEFT, the lengths multiply the product of the same inputs.
  if (in != x) base = graph::linear(in, linear.weight, {}, linear.scale);
  const graph::Value by = graph::divide(adapter.magnitude, norms_of(linear, adapter));
  return scaled(graph::subtract(graph::multiply(graph::add(base, low), by), base), adapter.share);
}

} // namespace

Linear find_linear(const ParamLookup& find, const std::string& name,
                   const std::vector<std::string>& adapters) {
  const NamedParam weight = find(name);
  Linear linear{
      weight.value, find(name + ".bias").value, find(name + ".scale").value, {}, weight.partition};
  for (const std::string& adapter : adapters) {
    const std::string own = qualified_name(adapter, name);
    const NamedParam down = find(own + ".lora_a"), up = find(own + ".lora_b");
    if (!down.value.defined() || !up.value.defined()) continue;
    const NamedParam magnitude = find(own + ".lora_m");
    linear.adapters.push_back(
        {down.value, up.value, up.factor, magnitude.value, magnitude.factor, own, {}});
  }
  return linear;
}

Linear gathered(const Linear& linear, graph::Value x) {
  const Partition& cut = linear.partition;
  if (cut.gathered_ranks <= 1) return linear;
  Linear made = linear;
  // Where x differs between ranks, the gradients of the weight differ too, and the sum over the
  // ranks leaves each rank its part. Where x is equal, every rank computes the same gradient of the
  // whole weight.
  const bool equal = !x.type().axes.has(graph::Axis::fsdp);
  made.weight = graph::all_gather(linear.weight, graph::Axis::fsdp, cut.gathered_dim,
                                  cut.gathered_ranks, equal);
  made.partition.gathered_dim = -1;
  made.partition.gathered_ranks = 1;
  return made;
}

Linear whole(const Linear& linear, graph::Value x) {
  Linear made = gathered(linear, x);
  if (!made.partition.cuts()) return made;
  if (made.partition.kind != PartitionKind::columns || !made.adapters.empty())
    fail(Code::internal, "a linear cut along its inputs cannot be put together");
  const auto join = [&](graph::Value part) {
    return part.defined()
               ? graph::all_gather(part, graph::Axis::tensor, 0, made.partition.ranks, true)
               : part;
  };
  made.weight = join(made.weight);
  made.bias = join(made.bias);
  made.scale = join(made.scale);
  made.partition = {};
  return made;
}

graph::Value product(const Linear& given, graph::Value x) {
  const Linear linear = gathered(given, x);
  const bool summed = is_summed(linear);
  // A magnitude multiplies the product without its bias.
  const bool has_magnitude = std::ranges::any_of(
      linear.adapters, [](const Adapter& adapter) { return adapter.magnitude.defined(); });
  const bool bias_is_last = summed || has_magnitude;
  const graph::Value base =
      graph::linear(x, linear.weight, bias_is_last ? graph::Value{} : linear.bias, linear.scale);
  graph::Value y = base;
  for (const Adapter& adapter : linear.adapters)
    y = graph::add(y, change(linear, adapter, x, base));
  if (summed) y = graph::all_reduce(y, graph::AxisSet(graph::Axis::tensor));
  return bias_is_last && linear.bias.defined() ? graph::add(y, linear.bias) : y;
}

graph::Value expert_product(const Linear& given, graph::Value x, graph::Value experts) {
  const Linear linear = gathered(given, x);
  const bool inside = linear.partition.cuts() && linear.partition.kind != PartitionKind::experts;
  if (linear.bias.defined() || inside)
    fail(Code::unimplemented, "products of experts have no bias and are not cut over axis tensor");
  graph::Value y = graph::expert_linear(x, experts, linear.weight, linear.scale);
  for (const Adapter& adapter : linear.adapters) {
    // For the second product each choice of a row is a row.
    const int64_t rows = experts.dim(0), choices = experts.dim(1), rank = adapter.down.dim(1);
    const graph::Value inner = // (rows, choices, rank)
        graph::expert_linear(adapter_input(linear, adapter, x), experts, adapter.down);
    const graph::Value made =
        graph::expert_linear(graph::reshape(inner, {rows * choices, rank}),
                             graph::reshape(experts, {rows * choices, 1}), adapter.up);
    y = graph::add(y, scaled(graph::reshape(made, y.shape()), adapter.factor));
  }
  return y;
}

} // namespace dllm::model
