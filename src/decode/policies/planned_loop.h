#pragma once
// The graph form of rules that decide as many positions as a plan says, those of the largest score.

#include "decode/loop_rule.h"
#include "decode/rule.h"

#include <vector>

namespace dllm::decode {

enum class PlannedScore { probability, chance };

// LoopTables::count is how many.
LoopOffer planned_loop(PlannedScore score);
// count of the coming steps, by a plan of the block's steps.
void fill_planned(const std::vector<int64_t>& transfer, const Moment& moment, LoopTables& tables);

} // namespace dllm::decode
