#pragma once
// The continuous-time bound of uniform noise (Schiff et al. 2024, UDLM, equation 18; Sahoo et al. 2025, Duo): a token is
// replaced by any of K with probability 1 - alpha. With p = softmax(logits), z the noised token, x the clean one and
// tb_j = K alpha p_j + 1 - alpha, xb the same of the clean token:
//   l = -alpha' / (K alpha) * -[ K / xb_z - K / tb_z - sum_j (xb_j / xb_z) log((tb_z xb_j) / (tb_j xb_z)) ],
// 0 where p = x, never negative. xb has two values, so one sum over j is enough.

#include "graph/ops.h"
#include "model/builder.h"

namespace dllm::noise {

// One number for each row, of its alpha and of whether its token is still the clean one.
struct UniformTerms {
  float odds = 0;  // c = K alpha / (1 - alpha): tb_j = (1 - alpha)(1 + c p_j)
  float kept = 0;  // 1: z = x
  float ratio = 0; // of (K / xb_z - K / tb_z) = ratio (p_z - kept) / (1 + c p_z)
  float sum = 0;   // of sum_j log(tb_j / tb_z): xb_j / xb_z for most j
  float clean = 0; // of log(tb_x / tb_z)
  float base = 0;  // what does not depend on p
};
// alpha in (0, 1), tokens = K.
UniformTerms uniform_terms(double alpha, int64_t tokens, bool kept);
// -alpha' / (K alpha): the factor of all of it, in the weights of the batch.
double uniform_weight(double alpha, double dalpha, int64_t tokens);

inline constexpr int64_t kUniformTermCount = 6; // of UniformTerms, in its order

// Rows of hidden states (rows, hidden): z and x i32(rows), terms f32(rows, 6). Rows are taken some at a time, so that no
// (rows, vocab) is kept. banned: a token that is never noise nor predicted, -1: none.
struct UniformRows {
  graph::Value hidden, noisy, clean, terms;
};
struct UniformLoss {
  graph::Value bound; // f32(rows), without its weight
  graph::Value nll;   // f32(rows): -log p_x
};
UniformLoss uniform_nelbo(const model::Head& head, const UniformRows& rows, int32_t banned);
// The same from logits (rows, vocab); tokens = K.
UniformLoss uniform_nelbo_of(graph::Value logits, const UniformRows& rows, int64_t tokens);

} // namespace dllm::noise
