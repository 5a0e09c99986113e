// One plain loop per operation; nothing here is fast, everything is meant to be obviously right.

#include "unit/graph/reference_ops.h"

#include "base/error.h"
#include "unit/graph/reference/arrays.h"

#include <algorithm>
#include <cmath>

namespace dllm::graph::test {

Array empty(const ValueType& type) {
  return {type, std::vector<double>(zu(type.shape.count()))};
}

// Calls fn(index, flat) for every element of a shape, in order.
void each(const Shape& shape, const std::function<void(const Index&, size_t)>& fn) {
  Index index(zu(shape.rank()));
  const size_t count = zu(shape.count());
  for (size_t flat = 0; flat < count; ++flat) {
    fn(index, flat);
    for (size_t i = index.size(); i-- > 0;) {
      if (++index[i] < shape.dims()[i]) break;
      index[i] = 0;
    }
  }
}

size_t flat_of(const Shape& shape, const Index& index) {
  int64_t flat = 0;
  for (size_t i = 0; i < index.size(); ++i) flat = flat * shape.dims()[i] + index[i];
  return zu(flat);
}

double wrap(DType dtype, double value) {
  if (dtype == DType::i32) return static_cast<int32_t>(static_cast<int64_t>(value));
  if (dtype == DType::u32) return static_cast<uint32_t>(static_cast<int64_t>(value));
  return value;
}

double pick(double x, double y, bool first) {
  return std::isnan(x) ? x : std::isnan(y) ? y : first ? x : y;
}

LocalOp find_local_op(std::string_view op) {
  for (const auto find : {find_move_op, find_math_op, find_order_op, find_product_op}) {
    if (const LocalOp found = find(op)) return found;
  }
  return nullptr;
}

Array from_tensor(const Tensor& tensor, const ValueType& type) {
  if (!(tensor.shape() == type.shape)) {
    fail(Code::invalid_argument, "oracle: array {} for {}", tensor.shape().text(), type.text());
  }
  const Tensor wide = tensor.to(DType::f64);
  const auto values = wide.as<double>();
  return {type, {values.begin(), values.end()}};
}

Tensor to_tensor(const Array& array) {
  Tensor wide(DType::f64, array.type.shape);
  std::copy(array.data.begin(), array.data.end(), wide.mutable_as<double>().begin());
  return is_float(array.type.dtype) ? wide : wide.to(array.type.dtype);
}

} // namespace dllm::graph::test
