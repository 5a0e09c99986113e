#include "model/linear.h"

#include "base/error.h"
#include "graph/ops.h"

namespace dllm::model {
namespace {

graph::Value scaled(graph::Value y, float factor) {
  return factor == 1 ? y : graph::multiply(y, graph::scalar(*y.graph, factor));
}

} // namespace

Linear find_linear(const ParamLookup& find, const std::string& name) {
  const NamedParam weight = find(name);
  Linear linear{
      weight.value, find(name + ".bias").value, find(name + ".scale").value, {}, weight.partition};
  const NamedParam down = find(name + ".lora_a"), up = find(name + ".lora_b");
  if (down.value.defined() && up.value.defined())
    linear.adapters.push_back({down.value, up.value, up.factor});
  return linear;
}

graph::Value product(const Linear& linear, graph::Value x) {
  const Partition& cut = linear.partition;
  const bool gathered = cut.cuts() && cut.kind == PartitionKind::gathered;
  const bool summed = cut.cuts() && cut.kind == PartitionKind::rows;
  if (gathered && (linear.scale.defined() || linear.weight.type().format != nullptr))
    fail(Code::unimplemented, "a weight {} cannot be gathered from ranks",
         linear.weight.type().text());
  const graph::Value weight =
      gathered ? graph::all_gather(linear.weight, cut.axis, 0, cut.ranks) : linear.weight;
  graph::Value y = graph::linear(x, weight, summed ? graph::Value{} : linear.bias, linear.scale);
  for (const Adapter& adapter : linear.adapters)
    y = graph::add(
        y, scaled(graph::linear(graph::linear(x, adapter.down), adapter.up), adapter.factor));
  if (!summed) return y;
  y = graph::all_reduce(y, graph::AxisSet(cut.axis));
  return linear.bias.defined() ? graph::add(y, linear.bias) : y;
}

graph::Value expert_product(const Linear& linear, graph::Value x, graph::Value experts) {
  if (linear.bias.defined() || linear.partition.cuts())
    fail(Code::unimplemented, "products of experts have no bias and are not cut over ranks");
  graph::Value y = graph::expert_linear(x, experts, linear.weight, linear.scale);
  for (const Adapter& adapter : linear.adapters) {
    // Each choice of a row is a row of its own for the second product.
    const int64_t rows = experts.dim(0), choices = experts.dim(1), rank = adapter.down.dim(1);
    const graph::Value inner =
        graph::expert_linear(x, experts, adapter.down); // (rows, choices, rank)
    const graph::Value made =
        graph::expert_linear(graph::reshape(inner, {rows * choices, rank}),
                             graph::reshape(experts, {rows * choices, 1}), adapter.up);
    y = graph::add(y, scaled(graph::reshape(made, y.shape()), adapter.factor));
  }
  return y;
}

} // namespace dllm::model
