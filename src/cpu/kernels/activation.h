#pragma once

#include "cpu/kernels/rows.h"

#include <string>

namespace dllm::cpu {

// silu gelu gelu_tanh relu; fails with Code::internal on anything else.
Activation activation_from_name(const std::string& name);

} // namespace dllm::cpu
