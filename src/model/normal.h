#pragma once
// Quantile of the standard normal distribution.

namespace dllm::model {

// p in (0, 1); relative error about 1e-7 (algorithm AS 241, PPND7: M. J. Wichura, Applied
// Statistics 37, 1988). Arithmetic, square root and log in double: rounded to f32 it is the same on
// any machine.
double normal_quantile(double p);

} // namespace dllm::model
