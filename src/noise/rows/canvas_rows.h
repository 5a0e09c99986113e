#pragma once
// Makes the arrays of rows [clean text | canvas] for objective diffusion_gemma. The canvas holds
// one randomly chosen block of the answer under uniform noise. The text before it is clean.

#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/times.h"

#include <vector>

namespace dllm::noise {

// The answer of a row, positions [begin, end), and the end of the row's text.
struct Answer {
  int64_t begin = 0, end = 0, text = 0;
};
// Returns the answer of a row. Fails with invalid_argument for a row of several texts.
Answer answer_of(const TokenRows& rows, int64_t row);

// Uniform random numbers of a batch. Arrays of the same names in the batch replace them.
struct CanvasDraws {
  std::vector<float> time, block, coin; // u_t, u_block, u_condition (batch)
  std::vector<float> mask, token;       // u_mask, u_token (batch, seq + block), by position
};
CanvasDraws canvas_draws(const TokenRows& rows, int64_t block, const Batch& batch,
                         const TimeSampler& times, uint64_t seed, int64_t step);

// `vocab` is the number of tokens that the noise draws from. `fill` is the token that fills the
// last canvas of an answer; -1: none.
struct CanvasNoise {
  int64_t vocab = 0, fill = -1;
};

struct CanvasRows {
  // Copies the clean text of the rows and adds empty canvases after it.
  CanvasRows(const TokenRows& rows, int64_t block);
  // Trains every token after the first, also in the prompt, with equal weights that add up to
  // `weight`.
  void train_text(const TokenRows& rows, int64_t row, const Answer& answer, double weight);
  // Fills the canvas of a row with a block of the answer, noised by the row's time t. Returns the
  // number of tokens that count.
  int64_t fill_canvas(const TokenRows& rows, int64_t row, const Answer& answer,
                      const CanvasDraws& draws, const CanvasNoise& noise);

  Tensor ids, targets, weights, positions, keys; // (batch, seq + block)
  Tensor normalizer, t, context, conditioned;    // (batch)
};

} // namespace dllm::noise
