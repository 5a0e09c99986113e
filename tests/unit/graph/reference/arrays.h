#pragma once
// What the oracle's operations share: walking an array by index.

#include "unit/graph/reference_ops.h"

#include <functional>

namespace dllm::graph::test {

using Results = std::vector<Array>;
using Index = std::vector<int64_t>;

inline size_t zu(int64_t i) {
  return static_cast<size_t>(i);
}
Array empty(const ValueType& type);
// Calls fn(index, flat) for every element of a shape, in order.
void each(const Shape& shape, const std::function<void(const Index&, size_t)>& fn);
size_t flat_of(const Shape& shape, const Index& index);
double wrap(DType dtype, double value);      // into the range of an integer type
double pick(double x, double y, bool first); // NaN passes through

// Tables of the four files; null when the operation is not there.
LocalOp find_move_op(std::string_view op);
LocalOp find_math_op(std::string_view op);
LocalOp find_order_op(std::string_view op);
LocalOp find_product_op(std::string_view op);

struct Entry {
  std::string_view name;
  LocalOp op;
};
template <size_t count> LocalOp find_entry(const Entry (&table)[count], std::string_view op) {
  for (const Entry& entry : table) {
    if (entry.name == op) return entry.op;
  }
  return nullptr;
}

} // namespace dllm::graph::test
