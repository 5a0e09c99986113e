#pragma once
// dllm verify MODEL --against f32 measures the quality that a weight format and an arithmetic cost,
// by comparison with the same model without them.

#include "../../command.h"

namespace dllm::cli {

std::vector<Argument> against_arguments();
// Fails for options of --against when --against is absent, and for values outside their ranges when
// it is set.
void check_against(const Context& context);
int verify_against(Context& context);

} // namespace dllm::cli
