#pragma once
// The last output of dllm train: a sample of the model, and the commands to continue with.

#include "training.h"

namespace dllm::cli {

void say_what_next(Context& context, const Run& run);

}  // namespace dllm::cli
