#pragma once
// Rows of block objectives: [noised | clean], both with the positions of the row (attention two_stream).

#include "noise/objectives/table.h"

#include <utility>
#include <vector>

namespace dllm::noise {

// `source` with ids, targets and weights of twice the length, and everything else that has a number for each token.
// padding_hidden: padding is no key of either half, and segments keep apart; false: both are left out, as the references
// do. Fails with invalid_argument for a batch with an attention mask of its own.
Batch two_streams(const TokenCeArrays& made, const Batch& source, bool padding_hidden);

// Makes the clean half causal token by token (array limit), and trains it to predict its next tokens where `weight` is not
// 0: block diffusion and an autoregressive model in one pass (Nemotron-Labs-Diffusion, NVIDIA 2026). prepared: rows of
// two_streams; source: the rows they were made of. shift: of the model; with 1 a token is predicted by the state before it.
void add_next_tokens(Batch& prepared, const Batch& source, double weight, int shift);

// Blocks that grow, or shrink, while a model trains (LLaDA2.0: warm-up, stable, decay): option block_steps,
// STEP:LENGTH with rising steps. Before the first step the length is that of the context.
class BlockSteps {
public:
  static OptionSpec option();
  // Fails with invalid_argument for a text of another form.
  explicit BlockSteps(const Options& options);
  // The context of this step.
  PrepareContext at(int64_t step, const PrepareContext& context) const;
  // Array "block_length" of a batch that is prepared so; nothing where the option is not set.
  void note(Batch& prepared, const PrepareContext& context) const;

private:
  std::vector<std::pair<int64_t, int64_t>> steps_; // from, length
};

// The block length of the context; fails with failed_precondition when there is none.
int64_t needed_block_length(const Objective& objective, const PrepareContext& context);

} // namespace dllm::noise
