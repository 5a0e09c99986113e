#pragma once
// How fast a device multiplies matrices.

#include "pjrt/engine_state.h"

namespace dllm::pjrt {

// Multiply-adds x 2 per second of a chain of large products with the engine's operand type and
// precision; the best of a few runs.
double measure_peak_flops(EngineState& state);

} // namespace dllm::pjrt
