#pragma once
// Elementwise steps that run as one: a tile of every array at a time, so that what they hand to each other stays in the
// near cache and has no place in the arena. Each number is computed by the same kernels in the same order: the same bits.

#include "cpu/plan.h"

namespace dllm::cpu {

// Joins steps of a frame in place. A step moves to the front, to the first of its group, where its operands are there
// already. Before storage is assigned.
void fuse_elementwise_steps(Frame& frame);

} // namespace dllm::cpu
