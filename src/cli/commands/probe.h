#pragma once
// What is done with one plugin in a process that may die of it.

#include "../command.h"

namespace dllm::cli {

// Writes a line of JSON for each stage that was reached, so that what came before a crash is known:
//   {"stage": "loaded", "plugin": {...}}        dllm_plugin_describe
//   {"stage": "client", "engine": {...}}        dllm_engine_describe, with --probe
//   {"stage": "ran", "seconds": 1.2, "difference": 1e-7}   a small model, against the cpu engine
//   {"stage": "failed", "status": "unavailable", "message": "...", "hint": "..."}
int probe_plugin(Context& context);

} // namespace dllm::cli
