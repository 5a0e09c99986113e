#pragma once
// The continuous-time bound of uniform noise (Schiff et al. 2024, UDLM, equation 18; Sahoo et al.
// 2025, Duo). With probability 1 - alpha a token is replaced by any of K tokens. Let p =
// softmax(logits), z the noised token, x the clean token, tb_j = K alpha p_j + 1 - alpha, and xb
// the same of the clean token. Then
//   l = -alpha' / (K alpha) * -[ K / xb_z - K / tb_z
//                               - sum_j (xb_j / xb_z) log((tb_z xb_j) / (tb_j xb_z)) ].
// l is never negative, and 0 where p = x. xb has two values, so one sum over j is enough.

#include "graph/ops.h"
#include "model/network/builder.h"

namespace dllm::noise {

// Numbers of one row. They follow from its alpha and from whether its token is still the clean one.
struct UniformTerms {
  // c = K alpha / (1 - alpha): tb_j = (1 - alpha)(1 + c p_j).
  float odds = 0;
  float kept = 0; // 1: z = x
  // K / xb_z - K / tb_z = ratio (p_z - kept) / (1 + c p_z).
  float ratio = 0;
  // Factor of sum_j log(tb_j / tb_z), which is xb_j / xb_z for most j.
  float sum = 0;
  float clean = 0; // factor of log(tb_x / tb_z)
  float base = 0;  // the terms without p
};
// Returns the numbers of a row. alpha is in (0, 1), and `tokens` is K.
UniformTerms uniform_terms(double alpha, int64_t tokens, bool kept);
// Returns -alpha' / (K alpha), the factor of the whole bound. It is part of the weights of the
// batch.
double uniform_weight(double alpha, double dalpha, int64_t tokens);

inline constexpr int64_t kUniformTermCount = 6; // numbers of UniformTerms, in its order

// Rows of hidden states (rows, hidden), with z and x as i32(rows) and terms as f32(rows, 6). The
// loss takes a few rows at a time, so that no (rows, vocab) array is kept. `banned` is a token that
// is never noise or predicted; -1: none.
struct UniformRows {
  graph::Value hidden, noisy, clean, terms;
};
struct UniformLoss {
  graph::Value bound; // f32(rows), without the weight
  graph::Value nll;   // f32(rows): -log p_x
};
UniformLoss uniform_nelbo(const model::Head& head, const UniformRows& rows, int32_t banned);
// Returns the same from logits (rows, vocab). `tokens` is K.
UniformLoss uniform_nelbo_of(graph::Value logits, const UniformRows& rows, int64_t tokens);

} // namespace dllm::noise
