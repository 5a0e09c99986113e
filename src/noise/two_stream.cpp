#include "noise/two_stream.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::noise {
namespace {

// Each row of `first`, then the same row of `second`.
template <class T> Tensor side_by_side(const Tensor& first, const Tensor& second) {
  const int64_t batch = first.shape()[0], seq = first.shape()[1];
  Tensor made(first.dtype(), {batch, 2 * seq});
  const auto out = made.mutable_as<T>();
  const auto row = static_cast<size_t>(seq);
  for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
    std::ranges::copy(first.as<T>().subspan(b * row, row), out.subspan(2 * b * row).begin());
    std::ranges::copy(second.as<T>().subspan(b * row, row), out.subspan((2 * b + 1) * row).begin());
  }
  return made;
}

Tensor counted_positions(int64_t batch, int64_t seq) {
  Tensor positions(DType::i32, {batch, seq});
  const auto out = positions.mutable_as<int32_t>();
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<int32_t>(i % static_cast<size_t>(seq));
  return positions;
}

} // namespace

Batch two_streams(const TokenCeArrays& made, const Batch& source, bool padding_hidden) {
  if (source.has("mask")) {
    fail_with_hint("leave array mask out", Code::invalid_argument,
                   "rows of two streams have an attention mask of their own");
  }
  const Shape shape = made.ids.shape();
  const Tensor clean = source.at("ids").to(DType::i32);
  Tensor none(DType::i32, shape);
  std::ranges::fill(none.mutable_as<int32_t>(), -1);
  Batch rows = source;
  for (const char* name : {"keep", "labels", "keys", "segments", "positions"}) rows.remove(name);
  rows.set("ids", side_by_side<int32_t>(made.ids, clean));
  rows.set("targets", side_by_side<int32_t>(made.targets, none));
  rows.set("weights", side_by_side<float>(made.weights, Tensor(DType::f32, shape)));
  rows.set("normalizer", made.normalizer);
  rows.set("t", made.t);
  const Tensor* given = source.find("positions");
  const Tensor positions =
      given != nullptr ? given->to(DType::i32) : counted_positions(shape[0], shape[1]);
  rows.set("positions", side_by_side<int32_t>(positions, positions));
  if (!padding_hidden) return rows;
  if (const Tensor* segments = source.find("segments"))
    rows.set("segments", side_by_side<int32_t>(segments->to(DType::i32), segments->to(DType::i32)));
  if (const Tensor* keys = source.find("keys"))
    rows.set("keys", side_by_side<uint8_t>(keys->to(DType::u8), keys->to(DType::u8)));
  return rows;
}

int64_t needed_block_length(const Objective& objective, const PrepareContext& context) {
  if (context.block_length > 0) return context.block_length;
  fail_with_hint("set block_length = 32, or \"dllm\": {\"block_length\"} in config.json",
                 Code::failed_precondition, "objective {} needs a block length and there is none",
                 objective.name());
}

} // namespace dllm::noise
