#include "decode/cache/row_copy.h"

#include "graph/ops.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace dllm::decode {
namespace {

using graph::Value;

constexpr int64_t kCountStep = 64; // positions are rounded up, so that few programs are compiled

int64_t rounded_count(int64_t count, int64_t capacity) {
  const auto steps = static_cast<uint64_t>((count + kCountStep - 1) / kCountStep);
  return std::min(capacity, static_cast<int64_t>(std::bit_ceil(steps)) * kCountStep);
}

// Returns the rows of a stack at `from`, also at `to`.
Value with_copies(Value stack, Value from, Value to) {
  Value scale;
  if (stack.dtype() == DType::i8)
    scale = graph::full(*stack.graph, Shape{stack.dim(0)}, 1.0f); // whole numbers as they are
  const Value copied = graph::take(stack, from, scale);
  return graph::scatter_set(stack, to, graph::convert(copied, stack.dtype()));
}

} // namespace

RowCopy::RowCopy(std::shared_ptr<model::Model> model)
    : model_(std::move(model)), stacks_(model::state_stacks(model_->config())) {}

std::shared_ptr<graph::Program> RowCopy::compile(const Key& key) const {
  auto graph = std::make_shared<graph::Graph>("copy_rows");
  const graph::AxisSet axes = model::request_axes(model_->engine().mesh());
  for (const model::StateStack& stack : stacks_) {
    const std::string name = "state:" + stack.name;
    const Value held = graph->input(name, stack.type({key.rows, key.capacity}, model_->params()));
    const int64_t count = std::ssize(stack.layers) * stack.layer_rows({1, key.count});
    const Value from = graph->input("from:" + stack.name, {Shape{count}, DType::i32, axes});
    const Value to = graph->input("to:" + stack.name, {Shape{count}, DType::i32, axes});
    graph->output(name, with_copies(held, from, to), name);
  }
  return model_->engine().compile(std::move(graph));
}

// Returns the indices of one place. An index past the last row writes nothing.
Batch RowCopy::feed(const Key& key, const Rows& rows, int64_t count, bool is_here) const {
  Batch batch;
  for (const model::StateStack& stack : stacks_) {
    const int64_t lines = stack.layer_rows({1, key.capacity}), used = stack.layer_rows({1, count}),
                  wanted = stack.layer_rows({1, key.count}), layer = lines * key.rows,
                  nowhere = layer * std::ssize(stack.layers);
    std::vector<int32_t> from, to;
    for (int64_t number = 0; number < std::ssize(stack.layers); ++number) {
      for (int64_t i = 0; i < wanted; ++i) {
        const bool is_copied = is_here && i < used;
        from.push_back(
            static_cast<int32_t>(is_copied ? number * layer + rows.from * lines + i : 0));
        to.push_back(
            static_cast<int32_t>(is_copied ? number * layer + rows.to * lines + i : nowhere));
      }
    }
    const Shape shape{std::ssize(from)};
    batch.set("from:" + stack.name, Tensor::from(shape, from));
    batch.set("to:" + stack.name, Tensor::from(shape, to));
  }
  return batch;
}

void RowCopy::run(std::vector<graph::BufferRef>& buffers, const model::StateSize& size,
                  const Rows& rows, int64_t count) {
  const Key key{size.rows, size.capacity, rounded_count(count, size.capacity)};
  const auto program = programs_.get(key, [&] { return compile(key); });
  const graph::Mesh& mesh = model_->engine().mesh();
  const graph::AxisSet axes = model::request_axes(mesh);
  std::vector<Batch> feeds;
  for (int64_t share = 0; share < mesh.size(axes); ++share)
    feeds.push_back(feed(key, rows, count, share == rows.share));
  runtime::Arguments arguments(program);
  for (size_t i = 0; i < stacks_.size(); ++i)
    arguments.donate(arguments.input("state:" + stacks_[i].name), buffers.at(i));
  arguments.upload(model_->engine(), feeds, axes);
  arguments.run();
}

} // namespace dllm::decode
