#pragma once
// Scan and while as steps of a frame: their plan, and what the frame around them must know.

#include "cpu/plan.h"

namespace dllm::cpu {

Loop plan_loop(const CompileInfo& info);
// Forms wanted of the operands, scratch, and results that may be written over their start values.
Kernel loop_kernel(const Loop& loop);

} // namespace dllm::cpu
