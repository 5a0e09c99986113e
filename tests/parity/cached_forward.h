#pragma once
// A model that keeps K and V between windows, driven the way the goldens' cached cases are: a
// window of ids at an offset, a table of who sees which row of the buffer.

#include "model/model.h"

namespace dllm::parity {

class CachedForward {
public:
  // The buffer has `rows` rows per sequence, all zero.
  CachedForward(std::shared_ptr<model::Model> model, int64_t batch, int64_t rows);

  // ids i32(batch, window); mask (window, rows), not 0: visible. -> logits f32(batch, window,
  // vocab)
  Tensor run(const Tensor& ids, int64_t offset, const Tensor& mask);
  // f32(batch, rows, kv_heads, head_dim)
  Tensor keys(int64_t layer) const { return of_layer(*keys_, layer); }
  Tensor values(int64_t layer) const { return of_layer(*values_, layer); }

private:
  Tensor of_layer(const graph::Buffer& kept, int64_t layer) const;

  std::shared_ptr<model::Model> model_;
  int64_t batch_, rows_;
  graph::BufferRef keys_, values_; // (layers * batch * rows, kv_size)
};

} // namespace dllm::parity
