#pragma once
// The arrays of rows [clean text | canvas] (objective diffusion_gemma): the canvas holds one block of the answer, drawn at
// random, under uniform noise; the text before it is clean.

#include "noise/objectives/table.h"
#include "noise/times.h"
#include "noise/token_ce.h"

#include <vector>

namespace dllm::noise {

// The answer of a row: places [begin, end), and the end of its text.
struct Answer {
  int64_t begin = 0, end = 0, text = 0;
};
// Fails with invalid_argument for a row of several texts.
Answer answer_of(const TokenRows& rows, int64_t row);

// Uniform numbers of a batch; arrays of the same names in it replace them.
struct CanvasDraws {
  std::vector<float> time, block, coin; // u_t, u_block, u_condition (batch)
  std::vector<float> mask, token;       // u_mask, u_token (batch, seq + block), by place
};
CanvasDraws canvas_draws(const TokenRows& rows, int64_t block, const Batch& batch,
                         const TimeSampler& times, uint64_t seed, int64_t step);

// Which tokens the noise draws from, and what fills the last canvas of an answer (-1: nothing does).
struct CanvasNoise {
  int64_t vocab = 0, fill = -1;
};

struct CanvasRows {
  // The clean text of the rows, with empty canvases behind it.
  CanvasRows(const TokenRows& rows, int64_t block);
  // Trains every token behind the first, those of the prompt too, with equal weights whose sum is `weight`.
  void train_text(const TokenRows& rows, int64_t row, const Answer& answer, double weight);
  // Fills the canvas of a row with its noised block, by the time t of the row; returns the tokens that count.
  int64_t fill_canvas(const TokenRows& rows, int64_t row, const Answer& answer,
                      const CanvasDraws& draws, const CanvasNoise& noise);

  Tensor ids, targets, weights, positions, keys; // (batch, seq + block)
  Tensor normalizer, t, context, conditioned;    // (batch)
};

} // namespace dllm::noise
