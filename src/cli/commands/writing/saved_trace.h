#pragma once
// Writes the trace of requests with the texts of its tokens, so that dllm replay needs no model.

#include "../../command.h"
#include "decoding.h"

#include <cstdint>
#include <vector>

namespace dllm::cli {

// Fails when the file of option trace is there and is not a trace.
void check_trace(const Context& context);
// Writes the file of option trace. In a job of several processes the first one writes it.
void save_trace(const Context& context, const Session& session, const dllm_decoder* decoder,
                const std::vector<int64_t>& slots);

} // namespace dllm::cli
