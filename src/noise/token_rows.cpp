#include "base/error.h"
#include "noise/token_ce.h"
#include "tensor/batch.h"

namespace dllm::noise {
namespace {

template <class T>
std::span<const T> optional_rows(const Batch& batch, const char* name, const Shape& shape) {
  const Tensor* array = batch.find(name);
  if (array == nullptr) return {};
  if (array->shape() != shape || array->dtype() != dtype_of<T>()) {
    fail(Code::invalid_argument, "array {} is {}{}, expected {}{} as ids", name,
         dtype_name(array->dtype()), array->shape().text(), dtype_name(dtype_of<T>()),
         shape.text());
  }
  return array->as<T>();
}

} // namespace

TokenRows token_rows(const Batch& batch, int64_t vocab) {
  const Tensor& ids = batch.at("ids");
  if (ids.dtype() != DType::i32 || ids.shape().rank() != 2) {
    fail(Code::invalid_argument, "array ids is {}{}, expected i32(batch, seq)",
         dtype_name(ids.dtype()), ids.shape().text());
  }
  TokenRows rows;
  rows.batch = ids.shape()[0];
  rows.seq = ids.shape()[1];
  rows.ids = ids.as<int32_t>();
  rows.keep = optional_rows<uint8_t>(batch, "keep", ids.shape());
  rows.segments = optional_rows<int32_t>(batch, "segments", ids.shape());
  rows.labels = optional_rows<int32_t>(batch, "labels", ids.shape());
  if (vocab > 0) {
    check_between("ids", ids, 0, vocab - 1, "the vocabulary",
                  "the tokenizer and the model must have the same vocabulary");
  }
  if (const Tensor* keep = batch.find("keep")) check_between("keep", *keep, 0, 1, "1: given");
  if (const Tensor* segments = batch.find("segments"))
    check_between("segments", *segments, 0, INT32_MAX, "0: padding");
  return rows;
}

} // namespace dllm::noise
