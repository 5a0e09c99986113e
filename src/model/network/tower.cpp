// What a tower has before its first layer: its stream and its noise level.

#include "base/error.h"
#include "graph/ops.h"
#include "model/layers/layer_kind.h"
#include "model/network/builder.h"
#include "model/network/sinusoid.h"

namespace dllm::model {
// Returns the embedding of the levels, f32(batch, n, hidden).
graph::Value Builder::tower_levels(const ForwardInputs& inputs, int64_t batch) {
  if (!inputs.levels.defined())
    fail(Code::invalid_argument, "part {} reads a noise level: levels (batch) are needed",
         network_);
  const int64_t parts = inputs.levels.shape().count() / batch, size = config_.tower.level_size;
  const graph::Value flat = graph::reshape(inputs.levels, {batch * parts, 1});
  graph::Value x = product(linear("time.in"), size > 1 ? sinusoid(flat, size) : flat);
  if (config_.tower.level == LevelKind::adaptive) x = product(linear("time.mid"), graph::silu(x));
  x = product(linear("time.out"), graph::silu(x));
  return graph::reshape(x, {batch, parts, config_.hidden_size});
}

// Returns the stream before the first layer, f32(batch, seq, hidden).
graph::Value Builder::tower_stream(const ForwardInputs& inputs) {
  const TowerConfig& tower = config_.tower;
  if (tower.context > 0 && !inputs.context.defined())
    fail(Code::invalid_argument, "part {} looks at a context: context (batch, keys, {}) is needed",
         network_, tower.context);
  graph::Value stream = inputs.embeddings;
  if (tower.latents > 0) {
    const int64_t batch = inputs.context.dim(0);
    const Shape wide{batch, tower.latents, config_.hidden_size};
    const graph::Value own = graph::reshape(parameter("latents"), wide.without(0).with_front(1));
    stream = stream.defined()
                 ? graph::add(stream, own)
                 : graph::vary(graph::broadcast(own, wide), inputs.context.type().axes);
  }
  if (!stream.defined())
    fail(Code::invalid_argument, "part {} needs its stream: embeddings (batch, seq, {})", network_,
         config_.hidden_size);
  // A caller that gives positions chooses the rows of the table.
  if (config_.positions == PositionKind::learned && !inputs.positions.defined() &&
      stream.dim(1) > config_.max_positions) {
    fail_with_hint("raise max_position_embeddings of its config", Code::invalid_argument,
                   "part {} has {} positions, and its stream has {}", network_,
                   config_.max_positions, stream.dim(1));
  }
  if (tower.level != LevelKind::added) return stream;
  const graph::Value levels = tower_levels(inputs, stream.dim(0));
  return graph::add(stream, over_positions(levels, stream.dim(1)));
}

} // namespace dllm::model
