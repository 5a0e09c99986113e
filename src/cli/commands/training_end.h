#pragma once
// The last words of dllm train: what the model writes now, and what to type next.

#include "training.h"

namespace dllm::cli {

void say_what_next(Context& context, const Run& run);

}  // namespace dllm::cli
