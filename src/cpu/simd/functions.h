#pragma once
// Elementary functions over arrays, on the best instruction set of the chip; the same bits on all of them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cpu {

// y[i] = f(x[i]); y may be x.
using MapFn = void (*)(const float* x, float* y, int64_t count);

struct Function {
  std::string_view name; // of its operation
  MapFn map;
};
// The table of functions.cpp. rsqrt is 1 / sqrt, both exact.
std::span<const Function> functions();
// Null for a name that is not in the table.
MapFn find_function(std::string_view name);

// The instruction sets that vector code is compiled for, the best first: those of simd/targets.h, on every compiler.
std::vector<std::string> compiled_targets();

// Sum in 16 virtual lanes and one fixed tree; largest element (-infinity when empty, NaN passed
// over).
float sum16(const float* x, int64_t count);
float max16(const float* x, int64_t count);

// x^y through double precision, written out so that every machine gives the same bits. Special cases as C's pow.
float power(float x, float y);

} // namespace dllm::cpu
