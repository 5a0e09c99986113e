#pragma once
// Reads the record of a run together with the parts of its model.

#include "../../command.h"
#include "../../pictures/report.h"

#include <string>

namespace dllm::cli {

// Returns the record of a run. The parts are those of its newest checkpoint. They stay empty when
// the run has none yet, or when it cannot be read.
RunRecord read_run_with_parts(const Context& context, const std::string& run);

} // namespace dllm::cli
