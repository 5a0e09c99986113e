// Matrix products in double precision, by Eigen: an oracle that shares no code with the engines.

#include "unit/graph/reference/arrays.h"

#include <Eigen/Core>

namespace dllm::graph::test {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// (..., m, k) times (..., k, n) is (..., m, n).
Results op_dot(const LocalCall& call) {
  const Array& x = *call.in[0];
  const Array& y = *call.in[1];
  const int64_t m = x.type.shape.dim(-2), k = x.type.shape.dim(-1), n = y.type.shape.dim(-1);
  Array z = empty(call.result());
  const int64_t batch = m * n == 0 ? 0 : z.type.shape.count() / (m * n);
  for (int64_t b = 0; b < batch; ++b) {
    const Eigen::Map<const Matrix> left(x.data.data() + b * m * k, m, k),
        right(y.data.data() + b * k * n, k, n);
    Eigen::Map<Matrix>(z.data.data() + b * m * n, m, n).noalias() = left * right;
  }
  return {z};
}

constexpr Entry kProducts[] = {{"dot", op_dot}};

} // namespace

LocalOp find_product_op(std::string_view op) {
  return find_entry(kProducts, op);
}

} // namespace dllm::graph::test
