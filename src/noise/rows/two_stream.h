#pragma once
// Makes the rows of block objectives: [noised | clean], both with the positions of the row
// (attention two_stream).

#include "noise/objectives/table.h"

#include <utility>
#include <vector>

namespace dllm::noise {

// Returns `source` with ids, targets and weights of twice the length; other arrays with one number
// per token are doubled too. With `padding_hidden` padding is not a key of either half, and
// segments stay apart. Without it keys and segments are left out, as the references do. Fails with
// invalid_argument for a batch with an attention mask.
Batch two_streams(const TokenCeArrays& made, const Batch& source, bool padding_hidden);

// Makes the clean half causal token by token (array limit). With a `weight` other than 0 the clean
// half is also trained to predict the next tokens. One pass then trains block diffusion and an
// autoregressive model (Nemotron-Labs-Diffusion, NVIDIA 2026). `prepared` has the rows of
// two_streams(), made from `source`. `shift` is the model's; with 1 the state before a token
// predicts it.
void add_next_tokens(Batch& prepared, const Batch& source, double weight, int shift);

// Block lengths that grow or shrink during training (LLaDA2.0: warm-up, stable, decay). Option
// block_steps is a list of STEP:LENGTH with rising steps. Before the first step the length is the
// one of the context.
class BlockSteps {
public:
  static OptionSpec option();
  // Fails with invalid_argument when the option has another form.
  explicit BlockSteps(const Options& options);
  // Returns the context with the block length of this step.
  PrepareContext at(int64_t step, const PrepareContext& context) const;
  // Sets array "block_length" of a prepared batch. Does nothing where the option is not set.
  void note(Batch& prepared, const PrepareContext& context) const;

private:
  std::vector<std::pair<int64_t, int64_t>> steps_; // first step, length
};

// Returns the block length of the context. Fails with failed_precondition when there is none.
int64_t needed_block_length(const Objective& objective, const PrepareContext& context);

} // namespace dllm::noise
