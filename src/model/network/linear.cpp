#include "model/network/linear.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/adapters/kinds/adapter_kind.h"
#include "model/params/part.h"

#include <algorithm>
#include <vector>

namespace dllm::model {
namespace {

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

} // namespace

NamedParam Adapter::tensor(std::string_view suffix) const {
  const auto found = tensors.find(suffix);
  return found == tensors.end() ? NamedParam{} : found->second;
}

graph::Value scaled(graph::Value y, float factor) {
  return factor == 1 ? y : graph::multiply(y, graph::scalar(*y.graph, factor));
}

bool is_summed(const Linear& linear) {
  return linear.partition.cuts() && linear.partition.kind == PartitionKind::rows;
}

graph::Value adapter_input(const Linear& linear, const Adapter& adapter, graph::Value x) {
  if (!adapter.dropout.keys.defined() || adapter.dropout.rate == 0) return x;
  const int64_t ranks = is_summed(linear) ? linear.partition.ranks : 1;
  return graph::multiply(x, kept_numbers(adapter, x, ranks));
}

Linear find_linear(const ParamLookup& find, const std::string& name,
                   const std::vector<NamedAdapter>& adapters) {
  const NamedParam weight = find(name);
  Linear linear{
      weight.value, find(name + ".bias").value, find(name + ".scale").value, {}, weight.partition};
  for (const NamedAdapter& adapter : adapters) {
    Adapter made{adapter.kind, {}, qualified_name(adapter.part, name), linear.slots++, {}};
    for (const AdapterTensor& tensor : adapter.kind->tensors) {
      const std::string suffix(tensor.suffix);
      const NamedParam found = find(made.name + suffix);
      if (found.value.defined()) made.tensors.emplace(suffix, found);
    }
    if (!made.tensors.empty()) linear.adapters.push_back(std::move(made));
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

namespace {

graph::Value added(graph::Value sum, graph::Value change) {
  return change.defined() ? graph::add(sum, change) : sum;
}

// Returns what is added to x W^T where each row has an adapter of its own; else an undefined value.
graph::Value changes_by_row(const Linear& linear, graph::Value x) {
  if (!linear.choice.defined() || linear.adapters.empty()) return {};
  const auto change = linear.adapters.front().kind->graph.by_row;
  const bool is_one_kind = std::ranges::all_of(linear.adapters, [&](const Adapter& adapter) {
    return adapter.kind->graph.by_row == change;
  });
  if (change == nullptr || !is_one_kind)
    fail(Code::internal, "rows of one pass cannot have adapters of these kinds");
  return change(linear, x);
}

graph::Value bias_with_changes(const Linear& linear, graph::Value x) {
  graph::Value bias = linear.bias;
  for (const Adapter& adapter : linear.adapters) {
    if (const auto change = adapter.kind->graph.bias)
      bias = added(bias, change({linear, adapter, x}, linear.bias));
  }
  return bias;
}

} // namespace

graph::Value product(const Linear& given, graph::Value x) {
  const Linear linear = gathered(given, x);
  const bool summed = is_summed(linear);
  // Changes are of the product without its bias.
  const bool reads_base = std::ranges::any_of(linear.adapters, [](const Adapter& adapter) {
    const auto reads = adapter.kind->graph.reads_base;
    return reads != nullptr && reads(adapter);
  });
  const bool bias_is_last = summed || reads_base;
  graph::Value in = x;
  for (const Adapter& adapter : linear.adapters) {
    if (const auto change = adapter.kind->graph.input) in = added(in, change({linear, adapter, x}));
  }
  const auto of_weight = [&](graph::Value inputs) {
    return graph::linear(inputs, linear.weight, bias_is_last ? graph::Value{} : linear.bias,
                         linear.scale);
  };
  graph::Value y = of_weight(in);
  const graph::Value base = in == x || !reads_base ? y : of_weight(x);
  for (const Adapter& adapter : linear.adapters) {
    const auto change = adapter.kind->graph.output;
    if (change != nullptr && !linear.choice.defined())
      y = added(y, change({linear, adapter, x, base}));
  }
  y = added(y, changes_by_row(linear, x));
  if (summed) y = graph::all_reduce(y, graph::AxisSet(graph::Axis::tensor));
  return bias_is_last && linear.bias.defined() ? graph::add(y, bias_with_changes(linear, x)) : y;
}

graph::Value expert_product(const Linear& given, graph::Value x, graph::Value experts) {
  const Linear linear = gathered(given, x);
  const bool inside = linear.partition.cuts() && linear.partition.kind != PartitionKind::experts;
  if (linear.bias.defined() || inside)
    fail(Code::unimplemented, "products of experts have no bias and are not cut over axis tensor");
  if (linear.choice.defined() && !linear.adapters.empty())
    fail(Code::internal, "rows of one pass cannot have adapters of experts");
  graph::Value y = graph::expert_linear(x, experts, linear.weight, linear.scale);
  for (const Adapter& adapter : linear.adapters)
    y = graph::add(y, adapter.kind->graph.experts({linear, adapter, x}, experts));
  return y;
}

} // namespace dllm::model
