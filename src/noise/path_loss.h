#pragma once
// The loss of Open-dLLM (github.com/pengzhangzhi/Open-dLLM and its fork castlehill), of masked tokens:
//   sum_r w_r CE_r  +  sum_r w_r sg(p_r) CE_r  +  sum of pairs v_r sum_k p_r(k) p_{r+1}(k)
// with p_r = exp(-CE_r) and sg the stop of the gradient. The second sum counts a token more that the model finds already, as
// samplers that plan their path decide it first (P2, arXiv 2502.03540). The third lowers the chance that two neighbours
// with different targets get the same token. Its hard form counts pairs whose likeliest tokens are the same alone, by how far
// these are in front: per row the mean over such pairs of (l1_r - l2_r + l1_{r+1} - l2_{r+1}) / 2, l1 and l2 the two largest logits.

#include "graph/ops.h"
#include "model/builder.h"

namespace dllm::noise {

struct PathRows {
  graph::Value hidden;  // f32(rows, hidden)
  graph::Value targets; // i32(rows), -1: none
  graph::Value count;   // i32(): rows in use
  graph::Value weights; // f32(rows): w
  graph::Value pairs;   // f32(rows): v of a row and the next one; undefined: no third sum
  // Of the hard form: i32(rows): the row of the batch that a row belongs to, below `batch`; v is then that of the mean of
  // its pairs. Undefined: the soft form.
  graph::Value owners;
  int64_t batch = 0;
};
struct PathLoss {
  graph::Value masked, path, repetition; // f32 scalars; repetition undefined without pairs
  graph::Value nll;                      // f32(rows)
};
PathLoss path_loss(const model::Head& head, const PathRows& rows);

} // namespace dllm::noise
