#pragma once
// Elementary functions over arrays, on the best instruction set of the chip; the same bits on all
// of them.

#include <cstdint>
#include <string_view>

namespace dllm::cpu {

// y[i] = f(x[i]); y may be x.
using MapFn = void (*)(const float* x, float* y, int64_t count);

// exp expm1 log log1p tanh logistic erf erf_inv sin cos sqrt rsqrt; null for anything else. rsqrt
// is 1 / sqrt, both exact.
MapFn find_function(std::string_view name);

// Sum in 16 virtual lanes and one fixed tree; largest element (-infinity when empty, NaN passed
// over).
float sum16(const float* x, int64_t count);
float max16(const float* x, int64_t count);

} // namespace dllm::cpu
