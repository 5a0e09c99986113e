#pragma once
// Joins elementwise steps into groups that run as one step (fused_tiles.h). A group works on one
// tile of every array at a time. So values between its members stay in the cache and need no place
// in the arena. The same kernels compute each number in the same order, so the bits do not change.

#include "cpu/plan.h"

namespace dllm::cpu {

// Replaces groups of elementwise steps of a frame. A group runs at the place of its first step,
// where the operands of all members that come from outside the group exist. REQUIRES: storage is
// not assigned yet.
void fuse_elementwise_steps(Frame& frame);

} // namespace dllm::cpu
