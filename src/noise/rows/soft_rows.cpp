#include "noise/rows/soft_rows.h"

#include "graph/ops.h"

#include <algorithm>

namespace dllm::noise {
namespace {

constexpr const char *kAlpha = "alpha", *kIds = "soft_ids", *kWeights = "soft_weights",
                     *kOn = "soft_on";

} // namespace

SoftRows::SoftRows(int64_t batch, int64_t seq)
    : alpha_(DType::f32, {batch}), ids_(DType::i32, {batch, seq, kSoftTokens}),
      weights_(DType::f32, {batch, seq, kSoftTokens}), on_(DType::u8, {batch, seq}) {}

void SoftRows::set(size_t at, std::span<const int32_t> ids, std::span<const float> weights) {
  const size_t begin = at * static_cast<size_t>(kSoftTokens);
  std::ranges::copy(ids, ids_.mutable_as<int32_t>().subspan(begin).begin());
  std::ranges::copy(weights, weights_.mutable_as<float>().subspan(begin).begin());
  on_.mutable_as<uint8_t>()[at] = 1;
}

void SoftRows::add_to(Batch& batch) const {
  if (alpha_.count() == 0) return;
  batch.set(kAlpha, alpha_);
  batch.set(kIds, ids_);
  batch.set(kWeights, weights_);
  batch.set(kOn, on_);
}

void SoftRows::feed(const Batch& prepared, Batch& made) {
  for (const char* name : {kIds, kWeights, kOn}) {
    if (const Tensor* array = prepared.find(name)) made.set(name, *array);
  }
}

graph::Value SoftRows::embeddings(model::Builder& builder, const LossInputs& inputs) {
  if (!inputs.all.contains(kIds)) return {};
  const graph::Value hard = builder.embed(inputs.tokens.ids);
  const graph::Value ids = inputs.all.at(kIds), weights = inputs.all.at(kWeights);
  const int64_t batch = hard.dim(0), seq = hard.dim(1);
  graph::Value sum;
  for (int64_t k = 0; k < kSoftTokens; ++k) {
    const graph::Value id = graph::reshape(graph::slice_axis(ids, 2, k, k + 1), {batch, seq});
    const graph::Value part =
        graph::multiply(graph::slice_axis(weights, 2, k, k + 1), builder.embed(id));
    sum = sum.defined() ? graph::add(sum, part) : part;
  }
  const graph::Value on = graph::reshape(inputs.all.at(kOn), {batch, seq, 1});
  return graph::select(graph::broadcast(on, hard.shape()), sum, hard);
}

} // namespace dllm::noise
