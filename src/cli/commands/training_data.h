#pragma once
// The data of a training run: tokenizer, dataset, the held-out split, the number of steps.

#include "training.h"

namespace dllm::cli {

// Steps of a run when neither --steps nor --minutes nor --epochs is given.
inline constexpr int64_t kUsualSteps = 500;

// A resumed run has its own, else the requested one, the model's, or one trained on the data.
Owned<dllm_tokenizer> choose_tokenizer(Context& context, const std::string& checkpoint);
// run.data, run.loader and, where the text is enough, run.held_out.
void open_rows(Context& context, Run& run);
// Steps of the whole run: what --steps, --epochs and --minutes say together; 0: until the minutes are over.
int64_t planned_steps(Context& context, Run& run);

}  // namespace dllm::cli
