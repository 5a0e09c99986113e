#pragma once
// The graph form of rules that choose among candidates: open positions that are not predicted to
// be the mask token. A row without any is stuck, which the host reports (eligible).

#include "decode/loop_rule.h"

#include <functional>

namespace dllm::decode {

// The first `count` i32(rows) of an order of the candidates are decided.
struct CandidateChoice {
  LoopOrder order;
  graph::Value count;
  graph::Value carry; // i32(rows) or undefined
};
using SelectGraph = std::function<CandidateChoice(
    const LoopMoment& moment, const PredictionValues& said, graph::Value candidates)>;

LoopOffer candidate_loop(SelectGraph select, int32_t mask_id);

// x (rows, block) as the order has it.
graph::Value sorted_by(const LoopOrder& order, graph::Value x);
// i32(rows): how many of u8(rows, block) are set, and how many of them before the first that is
// not.
graph::Value count_of(graph::Value flags);
graph::Value prefix_of(graph::Value flags);
// u8(rows, block): places of an order that hold candidates, count_of(candidates) i32(rows).
graph::Value in_use(graph::Value count, const Shape& shape);

} // namespace dllm::decode
