#pragma once
// What the operating system grants this process.

#include <cstdint>

namespace dllm {

// Bytes of physical memory, or of the control group when that is less. 0: not known.
int64_t machine_memory();

}  // namespace dllm
