#include "model/layers/state.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/layers/layer_kind.h"
#include "model/params/param_store.h"

#include <algorithm>

namespace dllm::model {

graph::AxisSet request_axes(const graph::Mesh& mesh) {
  graph::AxisSet axes;
  for (const graph::Axis axis : {graph::Axis::data, graph::Axis::fsdp}) {
    if (mesh.size(axis) > 1) axes = axes.with(graph::AxisSet(axis));
  }
  return axes;
}

Shape StateStack::shape(const StateSize& size) const {
  return {static_cast<int64_t>(layers.size()) * layer_rows(size), slot.shape.count()};
}

int64_t StateStack::bytes(const StateSize& size) const {
  return shape(size).count() * dtype_size(slot.dtype);
}

graph::Layout StateStack::layout(const ParamStore& params) const {
  graph::Layout layout;
  const graph::AxisSet shared = request_axes(params.engine().mesh());
  for (const graph::Axis axis : {graph::Axis::data, graph::Axis::fsdp}) {
    if (shared.has(axis)) layout.cut(axis, 0);
  }
  const auto cuts_heads = [](const ParamStore::Physical& entry) {
    return entry.spec.part == kBasePart && entry.spec.use == "attention.q" &&
           entry.spec.partition.cuts();
  };
  if (slot.by_heads && std::ranges::any_of(params.physical(), cuts_heads))
    layout.cut(graph::Axis::tensor, 1);
  return layout;
}

graph::ValueType StateStack::type(const StateSize& size, const ParamStore& params) const {
  const graph::Layout cut = layout(params);
  const graph::Mesh& mesh = params.engine().mesh();
  const StateSize all{size.rows * mesh.size(request_axes(mesh)), size.capacity};
  return {cut.part_shape(shape(all), mesh), slot.dtype, cut.axes()};
}

std::vector<StateStack> state_stacks(const ModelConfig& config) {
  std::vector<StateStack> stacks;
  for (const LayerRun& run : layer_runs(config)) {
    for (const StateSlot& slot : layer_slots(config, run)) {
      const auto same_name = [&](const StateStack& stack) { return stack.slot.name == slot.name; };
      const auto found = std::find_if(stacks.begin(), stacks.end(), [&](const StateStack& stack) {
        return same_name(stack) && stack.slot.kind == slot.kind && stack.slot.shape == slot.shape &&
               stack.slot.dtype == slot.dtype;
      });
      const bool first = std::none_of(stacks.begin(), stacks.end(), same_name);
      StateStack& stack = found != stacks.end() ? *found : stacks.emplace_back();
      if (stack.layers.empty()) {
        stack.name = first ? slot.name : fmt::format("{}@{}", slot.name, run.first);
        stack.slot = slot;
      }
      for (int64_t i = 0; i < run.count; ++i) stack.layers.push_back(run.first + i);
    }
  }
  return stacks;
}

bool has_positional(const std::vector<StateStack>& stacks) {
  return std::any_of(stacks.begin(), stacks.end(),
                     [](const StateStack& stack) { return !stack.slot.is_saved(); });
}

bool has_saved(const std::vector<StateStack>& stacks) {
  return std::any_of(stacks.begin(), stacks.end(),
                     [](const StateStack& stack) { return stack.slot.is_saved(); });
}

namespace {

// Takes rows first[b] + i of every b: x (batch, n, ...) -> (batch, count, ...).
graph::Value rows_from(graph::Value x, graph::Value first, int64_t count) {
  const int64_t batch = x.dim(0), n = x.dim(1);
  graph::Graph& graph = *x.graph;
  const graph::Value begin =
      graph::add(first, graph::multiply(graph::iota(graph, {batch}, DType::i32, 0),
                                        graph::scalar_i32(graph, static_cast<int32_t>(n))));
  const graph::Value at =
      graph::add(graph::reshape(begin, {batch, 1}), graph::iota(graph, {1, count}, DType::i32, 1));
  return graph::take(graph::reshape(x, x.shape().without(0).without(0).with_front(batch * n)), at);
}

} // namespace

LayerState::Entry& LayerState::entry(const std::string& name) {
  return const_cast<Entry&>(static_cast<const LayerState*>(this)->entry(name));
}

const LayerState::Entry& LayerState::entry(const std::string& name) const {
  for (const Entry& entry : entries_) {
    if (entry.slot.name == name) return entry;
  }
  fail(Code::internal, "the layer has no state slot named {}", name);
}

// One gather per layer copies the keys, not the whole cache.
graph::Value LayerState::keep(const std::string& name, graph::Value rows) {
  Entry& own = entry(name);
  if (own.slot.dtype == DType::i8) return keep_rounded(own, rows);
  if (!own.stack.defined()) {
    if (!rounds_ || own.slot.dtype == DType::f32) return rows;
    return graph::convert(graph::convert(rows, own.slot.dtype), DType::f32);
  }
  const Shape row = rows.shape().without(0).without(0);
  const graph::Value flat = graph::reshape(rows, {own.write_at.shape().count(), row.count()});
  own.stack = graph::scatter_set(own.stack, own.write_at, graph::convert(flat, own.stack.dtype()));
  return graph::reshape(graph::take(own.stack, own.read_at),
                        row.with_front(own.read_at.dim(1)).with_front(own.read_at.dim(0)));
}

// `rows` is (batch, seq, heads, dim). Each head of a row is one row of the table to read.
graph::Value LayerState::keep_rounded(Entry& own, graph::Value rows) {
  if (!own.stack.defined() && !rounds_) return rows;
  graph::Graph& graph = *rows.graph;
  const graph::Value scale = graph::multiply(graph::max(graph::absolute(rows), {3}, true),
                                             graph::scalar(graph, 1.0f / 127));
  // A row of zeros has scale 0, and its numbers stay 0.
  const graph::Value divisor = graph::maximum(scale, graph::scalar(graph, 1e-37f));
  const graph::Value whole = graph::round(graph::divide(rows, divisor));
  if (!own.stack.defined()) return graph::multiply(whole, scale);
  Entry& scales = entry(own.slot.name + ".scale");
  const int64_t count = own.write_at.shape().count(), heads = rows.dim(2), dim = rows.dim(3);
  own.stack = graph::scatter_set(
      own.stack, own.write_at,
      graph::reshape(graph::convert(whole, DType::i8), Shape{count, heads * dim}));
  scales.stack =
      graph::scatter_set(scales.stack, own.write_at, graph::reshape(scale, Shape{count, heads}));
  const int64_t batch = own.read_at.dim(0), keys = own.read_at.dim(1),
                table = own.stack.dim(0) * heads;
  const graph::Value first =
      graph::multiply(own.read_at, graph::scalar_i32(graph, static_cast<int32_t>(heads)));
  const graph::Value at = graph::add(graph::reshape(first, {batch, keys, 1}),
                                     graph::iota(graph, {1, 1, heads}, DType::i32, 2));
  return graph::take(graph::reshape(own.stack, {table, dim}), at,
                     graph::reshape(scales.stack, Shape{table}));
}

graph::Value LayerState::before(graph::Graph& graph, const std::string& name, int64_t batch) const {
  const Entry& own = entry(name);
  const Shape shape = own.slot.shape.with_front(batch), flat{batch, own.slot.shape.count()};
  const graph::Value zero = graph::full(graph, flat, 0.0f);
  if (!own.stack.defined()) return graph::reshape(zero, shape);
  graph::Value saved = graph::take(own.stack, own.from);
  if (saved.dtype() != DType::f32) saved = graph::convert(saved, DType::f32);
  const graph::Value on = graph::broadcast(graph::reshape(begun_, {batch, 1}), flat);
  return graph::reshape(graph::select(on, saved, zero), shape);
}

void LayerState::after_each(const std::string& name, graph::Value states) {
  if (!length_.defined()) return;
  graph::Graph& graph = *states.graph;
  const graph::Value zero = graph::scalar_i32(graph, 0);
  const graph::Value last =
      graph::maximum(graph::subtract(length_, graph::scalar_i32(graph, 1)), zero);
  after(name, rows_from(states, last, 1));
}

void LayerState::after(const std::string& name, graph::Value states) {
  Entry& own = entry(name);
  if (!own.stack.defined()) return;
  const graph::Value flat = graph::reshape(states, {own.to.dim(0), own.slot.shape.count()});
  own.stack = graph::scatter_set(own.stack, own.to, graph::convert(flat, own.stack.dtype()));
}

graph::Value LayerState::roll(const std::string& name, graph::Value rows) {
  const graph::Value all = graph::concat({before(*rows.graph, name, rows.dim(0)), rows}, 1);
  if (length_.defined()) after(name, rows_from(all, length_, entry(name).slot.shape[0]));
  return all;
}

} // namespace dllm::model
