#include "noise/rows/trained_padding.h"

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"

namespace dllm::noise {
namespace {

constexpr const char* kPadding = "trained_padding";
constexpr const char* kPaddingCount = "padding_count"; // f32()

} // namespace

Batch padding_trained(const Batch& batch) {
  const Tensor* given = batch.find("segments");
  if (given == nullptr || given->shape().rank() != 2) return batch;
  Batch made = batch;
  Tensor segments = given->to(DType::i32).clone();
  const bool has_keep = batch.has("keep") && batch.at("keep").shape() == given->shape();
  Tensor keep = has_keep ? batch.at("keep").to(DType::u8).clone() : Tensor{};
  Tensor padding(DType::u8, given->shape());
  const auto seq = static_cast<size_t>(segments.shape()[1]);
  const auto ids = segments.mutable_as<int32_t>();
  for (size_t at = 0; at < ids.size(); ++at) {
    if (ids[at] != 0 || at % seq == 0) continue;
    ids[at] = ids[at - 1];
    if (ids[at] == 0) continue; // a row with padding only
    padding.mutable_as<uint8_t>()[at] = 1;
    if (has_keep) keep.mutable_as<uint8_t>()[at] = 0;
  }
  made.set("segments", segments);
  if (has_keep) made.set("keep", keep);
  made.set(kPadding, padding);
  return made;
}

void feed_padding(const Batch& prepared, Batch& feed) {
  const Tensor* given = prepared.find(kPadding);
  if (given == nullptr) return;
  const Tensor padding = given->to(DType::u8), targets = prepared.at("targets").to(DType::i32),
               weights = prepared.at("weights").to(DType::f32);
  // The first half of two streams is the noised text.
  const int64_t batch = targets.shape()[0], width = targets.shape()[1];
  if (padding.shape() != Shape{batch, width} && padding.shape() != Shape{batch, width / 2}) {
    fail(Code::invalid_argument, "array {} has shape {}, targets have {}", kPadding,
         padding.shape().text(), targets.shape().text());
  }
  const auto target = targets.as<int32_t>();
  const auto weight = weights.as<float>();
  const auto is_padding = padding.as<uint8_t>();
  const int64_t seq = padding.shape()[1];
  float count = 0;
  for (int64_t row = 0; row < batch; ++row) {
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = static_cast<size_t>(row * width + i);
      const bool counts = target[at] >= 0 && weight[at] != 0.0f;
      if (counts && is_padding[static_cast<size_t>(row * seq + i)] != 0) ++count;
    }
  }
  feed.set(kPaddingCount, Tensor::scalar(count));
}

void report_padding(const LossInputs& inputs, Loss& loss) {
  const auto count = inputs.all.find(kPaddingCount);
  if (count == inputs.all.end()) return;
  loss.parts.push_back(
      {"padding_share", count->second, graph::convert(inputs.head_count, DType::f32)});
}

} // namespace dllm::noise
