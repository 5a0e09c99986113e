#include "noise/token_ce.h"

#include "base/error.h"
#include "graph/ops.h"
#include "tensor/batch.h"

namespace dllm::noise {
namespace {

Tensor wanted(const Batch& batch, const char* name, DType dtype, const Shape& shape) {
  const Tensor& array = batch.at(name);
  if (array.shape() != shape) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {}", name, array.shape().text(),
         shape.text());
  }
  if (!is_float(dtype) && is_float(array.dtype())) {
    fail(Code::invalid_argument, "array {} is {}, expected {}", name, dtype_name(array.dtype()),
         dtype_name(dtype));
  }
  return array.to(dtype);
}

Tensor wanted_numbers(const Batch& batch, const char* name, const Shape& shape) {
  Tensor array = wanted(batch, name, DType::f32, shape);
  check_finite(name, array);
  return array;
}

Tensor wanted_flags(const Batch& batch, const char* name, const Shape& shape) {
  Tensor array = wanted(batch, name, DType::u8, shape);
  check_between(name, array, 0, 1, "1: may be seen");
  return array;
}

// ids and targets: of the model's vocabulary, when there is one to compare with.
Tensor wanted_tokens(const Batch& batch, const char* name, int64_t low, int64_t vocab,
                     const Shape& shape) {
  Tensor array = wanted(batch, name, DType::i32, shape);
  check_between(name, array, low, vocab > 0 ? vocab - 1 : INT32_MAX,
                low < 0 ? "the vocabulary, -1: none" : "the vocabulary",
                "the tokenizer and the model must have the same vocabulary");
  return array;
}

// Where the tokens stand: the array, or their places in the row.
void set_positions(const Batch& prepared, const Shape& shape, int64_t max_positions, Batch& feed) {
  const int64_t most = max_positions > 0 ? max_positions : INT32_MAX;
  if (prepared.has("positions")) {
    feed.set("positions", wanted(prepared, "positions", DType::i32, shape));
    check_between("positions", feed.at("positions"), 0, most - 1, "the positions of the model");
  } else if (shape[1] > most) {
    fail_with_hint("cut the rows, or give positions", Code::invalid_argument,
                   "ids has rows of {} tokens, the model has {} positions", shape[1], most);
  }
}

// One entry per target: where the hidden state lies that predicts it.
struct PackedRows {
  Tensor rows, targets, weights;
  int64_t count = 0;
};

PackedRows pack_rows(const Tensor& targets, const Tensor& weights,
                     const TokenCeSettings& settings) {
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  PackedRows packed{Tensor(DType::i32, {batch * seq}), Tensor(DType::i32, {batch * seq}),
                    Tensor(DType::f32, {batch * seq})};
  const auto rows = packed.rows.mutable_as<int32_t>();
  const auto row_targets = packed.targets.mutable_as<int32_t>();
  const auto row_weights = packed.weights.mutable_as<float>();
  const auto target = targets.as<int32_t>();
  const auto weight = weights.as<float>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = static_cast<size_t>(b * seq + i);
      if (target[at] < 0 || weight[at] == 0.0f) continue;
      int64_t source = i - settings.shift;
      if (source < 0) {
        if (!settings.first_predicts_itself) {
          fail_with_hint(
              "give position 0 the target -1, or use shift = 0", Code::invalid_argument,
              "targets[{}, {}] cannot be predicted with shift {}: nothing stands before it", b, i,
              settings.shift);
        }
        source = i;
      }
      const auto slot = static_cast<size_t>(packed.count++);
      rows[slot] = static_cast<int32_t>(b * seq + source);
      row_targets[slot] = target[at];
      row_weights[slot] = weight[at];
    }
  }
  for (auto slot = static_cast<size_t>(packed.count); slot < rows.size(); ++slot)
    row_targets[slot] = -1;
  return packed;
}

// Rows of a batch that gives no normalizer count their targets.
Tensor default_normalizer(const Tensor& targets) {
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  Tensor counts(DType::f32, {batch});
  const auto target = targets.as<int32_t>();
  for (int64_t b = 0; b < batch; ++b) {
    int64_t count = 0;
    for (int64_t i = 0; i < seq; ++i)
      count += target[static_cast<size_t>(b * seq + i)] >= 0 ? 1 : 0;
    counts.mutable_as<float>()[static_cast<size_t>(b)] = static_cast<float>(count);
  }
  return counts;
}

} // namespace

Batch token_ce_feed(const Batch& prepared, const TokenCeSettings& settings) {
  const Tensor& given = prepared.at("ids");
  if (given.shape().rank() != 2) {
    fail(Code::invalid_argument, "array ids has shape {}, expected (batch, seq)",
         given.shape().text());
  }
  const Shape shape = given.shape();
  if (shape.count() > INT32_MAX) { // rows are numbered by i32
    fail_with_hint("take smaller batches", Code::invalid_argument,
                   "array ids has {} tokens, more than {}", shape.count(), INT32_MAX);
  }
  const Tensor ids = wanted_tokens(prepared, "ids", 0, settings.vocab, shape);
  const Tensor targets = wanted_tokens(prepared, "targets", -1, settings.vocab, shape);
  const PackedRows packed =
      pack_rows(targets, wanted_numbers(prepared, "weights", shape), settings);

  Batch feed;
  feed.set("ids", ids);
  set_positions(prepared, shape, settings.max_positions, feed);
  if (prepared.has("segments")) {
    feed.set("segments", wanted(prepared, "segments", DType::i32, shape));
    check_between("segments", feed.at("segments"), 0, INT32_MAX, "0: padding");
  }
  if (prepared.has("keys")) feed.set("keys", wanted_flags(prepared, "keys", shape));
  if (prepared.has("mask"))
    feed.set("mask", wanted_flags(prepared, "mask", {shape[0], shape[1], shape[1]}));
  if (settings.time_conditioning)
    feed.set("timesteps", wanted_numbers(prepared, "timesteps", {shape[0]}));
  if (settings.block > 0) feed.set("block", Tensor::scalar(static_cast<int32_t>(settings.block)));
  feed.set("rows", packed.rows);
  feed.set("row_targets", packed.targets);
  feed.set("row_weights", packed.weights);
  feed.set("count", Tensor::scalar(static_cast<int32_t>(packed.count)));
  feed.set("normalizer", prepared.has("normalizer")
                             ? wanted_numbers(prepared, "normalizer", {shape[0]})
                             : default_normalizer(targets));
  return feed;
}

Loss token_ce_loss(model::Builder& builder, const std::map<std::string, graph::Value>& arrays,
                   model::AttentionKind attention, bool empty_average) {
  const auto optional = [&](const char* name) {
    const auto found = arrays.find(name);
    return found == arrays.end() ? graph::Value{} : found->second;
  };
  model::ForwardInputs inputs;
  inputs.ids = arrays.at("ids");
  inputs.positions = optional("positions");
  inputs.timesteps = optional("timesteps");
  inputs.mask = model::make_mask(attention, optional("block"));
  if (const graph::Value segments = optional("segments"); segments.defined())
    inputs.mask.and_segments(segments, segments);
  if (const graph::Value keys = optional("keys"); keys.defined()) inputs.mask.and_key_keep(keys);
  if (const graph::Value mask = optional("mask"); mask.defined()) inputs.mask.and_dense(mask);
  inputs.empty_average = empty_average;

  const graph::Value hidden = builder.forward(inputs).hidden; // (batch, seq, hidden)
  const graph::Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const graph::Value rows = graph::take(flat, arrays.at("rows")); // (capacity, hidden)
  const model::Head head = builder.head();
  const graph::Value count = arrays.at("count");
  const graph::Value nll = graph::linear_cross_entropy(
      rows, head.weight, head.bias, head.scale, arrays.at("row_targets"), count,
      head.softcap); // (capacity)
  Loss loss;
  loss.sum = graph::sum(graph::multiply(nll, arrays.at("row_weights")), {0});
  loss.normalizer = graph::sum(arrays.at("normalizer"), {0});
  loss.parts.push_back(
      {"nll", graph::sum(graph::stop_gradient(nll), {0}), graph::convert(count, DType::f32)});
  return loss;
}

} // namespace dllm::noise
