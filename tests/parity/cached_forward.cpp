#include "cached_forward.h"

#include "graph/ops.h"
#include "model/network/builder.h"

namespace dllm::parity {

CachedForward::CachedForward(std::shared_ptr<model::Model> model, int64_t batch, int64_t rows)
    : model_(std::move(model)), batch_(batch), rows_(rows) {
  const model::ModelConfig& config = model_->config();
  const Tensor none(DType::f32, {config.layers * batch * rows, config.kv_size()});
  keys_ = model_->engine().upload(none);
  values_ = model_->engine().upload(none);
}

Tensor CachedForward::run(const Tensor& ids, int64_t offset, const Tensor& mask) {
  const int64_t window = ids.shape()[1];
  const auto graph = std::make_shared<graph::Graph>("cached");
  model::Builder builder(*graph, *model_);
  model::ForwardInputs inputs;
  std::vector<graph::BufferRef> buffers = model_->params().snapshot();
  const auto input = [&](const char* name, const Tensor& tensor) {
    buffers.push_back(model_->engine().upload(tensor));
    return graph->input(name, tensor.dtype(), tensor.shape());
  };
  const auto kept = [&](const char* name, const graph::BufferRef& buffer) {
    buffers.push_back(buffer);
    return graph->input(name, buffer->dtype(), buffer->shape());
  };
  std::vector<int32_t> positions, write_at, read_at;
  std::vector<uint8_t> table;
  const Tensor visible = mask.to(DType::i32);
  for (int64_t b = 0; b < batch_; ++b) {
    for (int64_t i = 0; i < window; ++i) {
      positions.push_back(static_cast<int32_t>(offset + i));
      write_at.push_back(static_cast<int32_t>(b * rows_ + offset + i));
    }
    for (int64_t row = 0; row < rows_; ++row)
      read_at.push_back(static_cast<int32_t>(b * rows_ + row));
    for (const int32_t seen : visible.as<int32_t>()) table.push_back(seen != 0 ? 1 : 0);
  }
  inputs.ids = input("ids", ids.to(DType::i32));
  inputs.positions = input("positions", Tensor::from(Shape{batch_, window}, positions));
  inputs.mask.and_dense(input("mask", Tensor::from(Shape{batch_, window, rows_}, table)));
  inputs.empty_average = true;
  inputs.state.write_at = input("write_at", Tensor::from(Shape{batch_ * window}, write_at));
  inputs.state.read_at = input("read_at", Tensor::from(Shape{batch_, rows_}, read_at));
  inputs.state.stacks = {kept("keys", keys_), kept("values", values_)};

  const model::ForwardOutputs made = builder.forward(inputs);
  graph->output("logits", builder.logits(made.hidden));
  graph->output("keys", made.state.stacks[0]);
  graph->output("values", made.state.stacks[1]);
  const auto results = model_->engine().compile(graph)->run(buffers);
  keys_ = results[1];
  values_ = results[2];
  return results[0]->read();
}

Tensor CachedForward::of_layer(const graph::Buffer& kept, int64_t layer) const {
  const model::ModelConfig& config = model_->config();
  const int64_t rows = batch_ * rows_;
  return kept.read()
      .rows(layer * rows, (layer + 1) * rows)
      .clone()
      .reshaped({batch_, rows_, config.kv_heads, config.head_dim});
}

} // namespace dllm::parity
