// Models that read a prefix causally, then a canvas whose positions see each other
// (DiffusionGemma). Both have the same weights, and one pass computes both.

#include "graph/ops.h"
#include "graph/ops/build.h" // the product with a matrix that is not transposed
#include "model/network/builder.h"

namespace dllm::model {
namespace {

// i32(batch, seq, 1): key coordinates of the window's positions.
graph::Value places(const ForwardInputs& inputs, graph::Graph& graph, int64_t batch, int64_t seq) {
  const graph::Value place = graph::iota(graph, {1, seq, 1}, DType::i32, 1);
  const graph::Value start = inputs.mask.query_start;
  if (!start.defined()) return graph::broadcast(place, {batch, seq, 1});
  return graph::add(graph::reshape(start, {batch, 1, 1}), place);
}

graph::Value start_of(const ForwardInputs& inputs, int64_t batch) {
  return graph::reshape(inputs.canvas_start, {batch, 1, 1});
}

} // namespace

graph::Value Builder::on_canvas(const ForwardInputs& inputs, int64_t batch, int64_t seq) {
  const graph::Value start = graph::broadcast(start_of(inputs, batch), {batch, seq, 1});
  return graph::greater_equal(places(inputs, graph_, batch, seq), start);
}

// Returns the mask: the prefix is causal, and the canvas sees itself and the prefix before its
// context.
graph::Value Builder::canvas_table(const ForwardInputs& inputs, int64_t batch, int64_t seq) {
  const Shape table{batch, seq, seq};
  const auto wide = [&](graph::Value x) { return graph::broadcast(x, table); };
  const graph::Value key = wide(graph::iota(graph_, {1, 1, seq}, DType::i32, 2));
  const graph::Value last = wide(places(inputs, graph_, batch, seq));
  const graph::Value start = wide(start_of(inputs, batch));
  const graph::Value context = wide(graph::reshape(inputs.canvas_context, {batch, 1, 1}));
  const graph::Value from_canvas =
      graph::logical_or(graph::less(key, context), graph::greater_equal(key, start));
  return graph::select(wide(on_canvas(inputs, batch, seq)), from_canvas,
                       graph::less_equal(key, last));
}

// Returns the windows. A position of the prefix sees the window - 1 keys before it. All positions
// of the canvas see the window - 1 keys before the canvas.
graph::Value Builder::canvas_window(const ForwardInputs& inputs, int64_t batch, int64_t seq) {
  const graph::Value keys = inputs.state.read_at;
  const int64_t count = keys.defined() ? keys.dim(1) : seq;
  graph::Value from = graph::minimum(places(inputs, graph_, batch, seq),
                                     graph::broadcast(start_of(inputs, batch), {batch, seq, 1}));
  if (inputs.canvas_context.defined()) {
    const graph::Value context = graph::reshape(inputs.canvas_context, {batch, 1, 1});
    from = graph::select(on_canvas(inputs, batch, seq), graph::broadcast(context, {batch, seq, 1}),
                         from);
  }
  const graph::Value first = graph::subtract(
      from, graph::scalar_i32(graph_, static_cast<int32_t>(config_.window - 1))); // (batch, seq, 1)
  const Shape table{batch, seq, count};
  return graph::greater_equal(
      graph::broadcast(graph::iota(graph_, {1, 1, count}, DType::i32, 2), table),
      graph::broadcast(first, table));
}

// Returns rms(z + network(rms(s))), where z is the embedding and s the mean embedding that the step
// before predicts. For s = 0 the network returns 0.
graph::Value Builder::canvas_input(graph::Value embedded, graph::Value conditioning) {
  graph::Value mixed = embedded;
  if (conditioning.defined()) {
    const graph::Value signal = normed(conditioning, "conditioning_norm");
    const graph::Value inner =
        graph::gated_activation(product(linear("conditioning_gate"), signal),
                                product(linear("conditioning_up"), signal), config_.activation);
    mixed = graph::add(mixed, product(linear("conditioning_down"), inner));
  }
  return graph::rms_norm(mixed, {}, static_cast<float>(config_.norm_eps));
}

graph::Value Builder::mean_embedding(graph::Value logits) {
  const graph::Value shares = graph::softmax(logits, 1); // (rows, vocab)
  const Linear table = whole(linear("embedding"), shares);
  std::vector<graph::Value> operands = {shares, table.weight};
  if (table.scale.defined()) operands.push_back(table.scale);
  const graph::Value mean =
      graph::ops::apply("linear_input_grad", operands, {{"has_scale", table.scale.defined()}});
  return graph::multiply(mean, graph::scalar(graph_, static_cast<float>(config_.embedding_scale)));
}

} // namespace dllm::model
