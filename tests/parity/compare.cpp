#include "compare.h"

#include "base/error.h"

#include <cmath>

namespace dllm::parity {

Worst compare(const Tensor& got, const Tensor& want, Tolerance tolerance, const Tensor& rows) {
  if (got.shape() != want.shape()) {
    fail(Code::invalid_argument, "shape {}, expected {}", got.shape().text(), want.shape().text());
  }
  const Tensor left = got.to(DType::f64), right = want.to(DType::f64);
  const auto a = left.as<double>(), b = right.as<double>();
  const int64_t per_row = rows.defined() && rows.count() > 0 ? want.count() / rows.count() : 1;

  Worst worst;
  worst.limit = tolerance.absolute;
  double worst_ratio = -1;
  for (int64_t i = 0; i < want.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (rows.defined() && rows.as<uint8_t>()[static_cast<size_t>(i / per_row)] == 0) continue;
    const bool same = a[at] == b[at] || (std::isnan(a[at]) && std::isnan(b[at]));
    double error = same ? 0 : std::abs(a[at] - b[at]);
    if (!same && !std::isfinite(error)) error = HUGE_VAL;
    const double limit =
        tolerance.absolute + tolerance.relative * (std::isfinite(b[at]) ? std::abs(b[at]) : 0);
    const double ratio = error == 0 ? 0 : (limit > 0 ? error / limit : HUGE_VAL);
    if (ratio <= worst_ratio) continue;
    worst_ratio = ratio;
    worst = {error, limit, i, ratio <= 1};
  }
  return worst;
}

} // namespace dllm::parity
