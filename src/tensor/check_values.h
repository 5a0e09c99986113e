#pragma once
// Numbers of an array against their bounds: linear passes, far below the cost of what reads the
// array.

#include "tensor/tensor.h"

#include <cstdint>
#include <string_view>

namespace dllm {

// Fails with invalid_argument unless low <= x <= high for all of an i32 or u8 array:
// "ids[1, 3] = 99 is not in 0 to 30 (the vocabulary)".
void check_between(std::string_view name, const Tensor& values, int64_t low, int64_t high,
                   std::string_view bound, const char* hint = "");

// Index of the first NaN or infinity of an array of any float type, or -1. Of f64: also of what f32
// cannot hold.
int64_t first_non_finite(const Tensor& values);

// Fails with invalid_argument when an array of any float type holds one: "weights[0, 2] = nan is
// not finite".
void check_finite(std::string_view name, const Tensor& values);

// "[1, 3]": place of an element of a row-major array.
std::string place_text(const Shape& shape, int64_t index);

} // namespace dllm
