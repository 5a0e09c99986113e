#pragma once
// dllm verify MODEL --against f32: what a weight format and an arithmetic cost in quality, next to the same model
// without them.

#include "../../command.h"

namespace dllm::cli {

std::vector<Argument> against_arguments();
// Without --against its options are refused; with it those that check files alone are not needed.
void check_against(const Context& context);
int verify_against(Context& context);

} // namespace dllm::cli
