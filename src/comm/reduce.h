#pragma once
// The arithmetic of reductions over ranks.

#include "tensor/dtype.h"

#include <cstdint>
#include <span>

namespace dllm::comm {

enum class Reduction : uint8_t { sum, max };

const char* reduction_name(Reduction reduction); // "sum" "max"
// f32, i32 and u32 are reduced; other types must be converted before.
bool can_reduce(DType dtype);

// out[i] = ((parts[0][i] op parts[1][i]) op parts[2][i]) ...: always in this order. Integers wrap; a maximum with NaN is
// NaN. `out` may be parts[0]. REQUIRES: can_reduce(dtype), at least one part.
void reduce(Reduction reduction, DType dtype, std::span<const void* const> parts, void* out,
            int64_t count);

} // namespace dllm::comm
