#pragma once
// The loss of Open-dLLM (github.com/pengzhangzhi/Open-dLLM and its fork castlehill) for masked
// tokens:
//   sum_r w_r CE_r  +  sum_r w_r sg(p_r) CE_r  +  sum of pairs v_r sum_k p_r(k) p_{r+1}(k)
// where p_r = exp(-CE_r) and sg stops the gradient. The second sum raises the weight of tokens that
// the model already predicts, because samplers that plan their path decide these tokens first (P2,
// arXiv 2502.03540). The third sum lowers the chance that two neighbours with different targets get
// the same token.
// The hard form of the third sum counts only pairs whose likeliest tokens are equal. Per row it is
// the mean over such pairs of
//   (l1_r - l2_r + l1_{r+1} - l2_{r+1}) / 2,
// where l1 and l2 are the two largest logits.

#include "graph/ops.h"
#include "model/network/builder.h"

namespace dllm::noise {

struct PathRows {
  graph::Value hidden;  // f32(rows, hidden)
  graph::Value targets; // i32(rows), -1: none
  graph::Value count;   // i32(): rows in use
  graph::Value weights; // f32(rows): w
  // f32(rows): v of a row and the next one; undefined: no third sum.
  graph::Value pairs;
  // i32(rows), for the hard form: the row of the batch, less than `batch`, that a row belongs to. v
  // is then the weight of the mean over its pairs. Undefined: the soft form.
  graph::Value owners;
  int64_t batch = 0;
};
struct PathLoss {
  // f32 scalars. `repetition` is undefined without pairs.
  graph::Value masked, path, repetition;
  graph::Value nll; // f32(rows)
};
PathLoss path_loss(const model::Head& head, const PathRows& rows);

} // namespace dllm::noise
