#include "noise/rows/head_rows.h"

#include <algorithm>
#include <memory>

namespace dllm::noise {
namespace {

constexpr int64_t kRowsAtATime = 128;

// Returns all logits of these rows.
graph::Value row_logits(const model::Head& head, graph::Value hidden, int32_t banned) {
  graph::Graph& graph = *hidden.graph;
  const graph::Value logits =
      graph::softcap(graph::linear(hidden, head.weight, head.bias, head.scale), head.softcap);
  if (banned < 0) return logits;
  const int64_t vocab = logits.dim(1);
  const graph::Value is_banned =
      graph::equal(graph::iota(graph, {1, vocab}, DType::i32, 1), graph::scalar_i32(graph, banned));
  return graph::select(graph::broadcast(is_banned, logits.shape()),
                       graph::full(graph, logits.shape(), -1e30f), logits);
}

// Reshapes (rows, ...) to (parts, rows of a part, ...), padded with zeros.
graph::Value in_parts(graph::Value x, int64_t part) {
  graph::Graph& graph = *x.graph;
  const int64_t parts = (x.dim(0) + part - 1) / part;
  std::vector<int64_t> low(static_cast<size_t>(x.rank()), 0), high = low;
  high[0] = parts * part - x.dim(0);
  const graph::Value zero =
      x.dtype() == DType::i32 ? graph::scalar_i32(graph, 0) : graph::scalar(graph, 0.0f);
  const graph::Value filled = high[0] > 0 ? graph::pad(x, low, high, zero) : x;
  std::vector<int64_t> dims = filled.shape().dims();
  dims[0] = part;
  dims.insert(dims.begin(), parts);
  return graph::reshape(filled, Shape(dims));
}

} // namespace

std::vector<graph::Value> over_head_rows(const std::string& name, std::span<const HeadOfRows> heads,
                                         std::span<const graph::Value> rows,
                                         const HeadRowsBody& body) {
  const int64_t count = heads[0].hidden.dim(0), part = std::min(count, kRowsAtATime);
  const auto inner = std::make_shared<graph::Graph>(name);
  std::vector<graph::Value> per_part, constants, own_rows, logits;
  const auto part_of = [&](graph::Value outer) {
    const std::string title = "row" + std::to_string(per_part.size());
    per_part.push_back(in_parts(outer, part));
    return inner->input(title, {outer.shape().with_dim(0, part), outer.dtype(), outer.type().axes});
  };
  const auto constant = [&](const char* title, size_t head, graph::Value outer) -> graph::Value {
    if (!outer.defined()) return {};
    constants.push_back(outer);
    return inner->input(title + std::to_string(head), outer.type());
  };
  // A scan wants the inputs of one part first, then the inputs that all parts share.
  std::vector<graph::Value> hidden;
  for (const HeadOfRows& head : heads) hidden.push_back(part_of(head.hidden));
  for (const graph::Value outer : rows) own_rows.push_back(part_of(outer));
  for (size_t i = 0; i < heads.size(); ++i) {
    model::Head own;
    own.weight = constant("weight", i, heads[i].head.weight);
    own.bias = constant("bias", i, heads[i].head.bias);
    own.scale = constant("scale", i, heads[i].head.scale);
    own.softcap = heads[i].head.softcap;
    logits.push_back(row_logits(own, hidden[i], heads[i].banned));
  }
  const std::vector<graph::Value> made = body(logits, own_rows);
  for (size_t i = 0; i < made.size(); ++i) inner->output("out" + std::to_string(i), made[i]);
  graph::ScanOptions options;
  options.remat = true;
  std::vector<graph::Value> all =
      graph::scan(inner, {}, per_part, constants, per_part[0].dim(0), options).stacked;
  for (graph::Value& x : all) { // (parts, part / n, ...)
    std::vector<int64_t> dims = x.shape().dims();
    const int64_t used = count * dims[1] / part;
    dims[1] *= dims[0];
    dims.erase(dims.begin());
    x = graph::slice_axis(graph::reshape(x, Shape(dims)), 0, 0, used);
  }
  return all;
}

} // namespace dllm::noise
