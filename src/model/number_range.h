#pragma once
// Numbers that a weight format cannot hold: f16 ends at 65504, and makes infinity of what is larger.

#include "base/task.h"
#include "tensor/tensor.h"
#include "tensor/weight_format.h"

#include <string>

namespace dllm::model {

// Fails with out_of_range for a number of tensor `name` that `format` would make infinite; also for NaN and infinity, where
// the format ends before f32 does. Formats in blocks have scales in f16: their limit is its.
void check_number_range(const std::string& name, const Tensor& numbers, const WeightFormat& format,
                        const Task* task = nullptr);

} // namespace dllm::model
