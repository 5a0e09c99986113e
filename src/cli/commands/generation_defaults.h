#pragma once
// A decoding command takes defaults from the generation_config.json of the model.

#include "decoding.h"

namespace dllm::cli {

// Sets options of kind decoder that the user did not set. Prints a line about the values of the
// file unless option quiet or json is set. Values that the policy cannot use are left out and named
// in the line.
void take_generation_defaults(Context& context, const Session& session);

} // namespace dllm::cli
