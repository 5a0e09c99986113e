#pragma once
// Elementary functions over arrays. They run on the best instruction set of the chip and have the
// same bits on every instruction set.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cpu {

// Computes y[i] = f(x[i]) for i < count; y may be x.
using MapFn = void (*)(const float* x, float* y, int64_t count);

struct Function {
  std::string_view name; // of the graph operation
  MapFn map;
};
// Returns the table of functions.cpp. rsqrt is 1 / sqrt(x), where both operations round correctly.
std::span<const Function> functions();
// Returns null for a name that is not in the table.
MapFn find_function(std::string_view name);

// Returns the instruction sets that vector code is compiled for, the best first. simd/targets.h
// selects the same sets with every compiler.
std::vector<std::string> compiled_targets();

// Returns the sum, added in 16 virtual lanes and one fixed tree.
float sum16(const float* x, int64_t count);

// Returns x^y. It is computed by series in double precision, so every machine gives the same bits.
// Special cases are as in C's pow().
float power(float x, float y);

} // namespace dllm::cpu
