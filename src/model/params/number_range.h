#pragma once
// Finds numbers that a weight format cannot hold. The range of f16 ends at 65504; larger numbers
// become infinite.

#include "base/task.h"
#include "tensor/tensor.h"
#include "tensor/weight_format.h"

#include <string>

namespace dllm::model {

// Fails with out_of_range for a number of tensor `name` that `format` would make infinite. NaN and
// infinity pass. Formats in blocks have the limit of f16, because their scales are f16; mxfp4 is an
// exception.
void check_number_range(const std::string& name, const Tensor& numbers, const WeightFormat& format,
                        const Task* task = nullptr);

} // namespace dllm::model
