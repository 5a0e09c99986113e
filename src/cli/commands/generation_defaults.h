#pragma once
// What a model's generation_config.json says becomes the default of a decoding command.

#include "decoding.h"

namespace dllm::cli {

// Sets options of kind decoder that the user did not give, and prints a line about all that the file decides (option
// quiet, or json: none). A value that the policy cannot use is left out, and named in the line.
void take_generation_defaults(Context& context, const Session& session);

} // namespace dllm::cli
