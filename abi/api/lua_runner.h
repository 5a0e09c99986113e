#pragma once
#include "base/options.h"

namespace dllm::abi {

const Schema& lua_schema();  // "lua": sandbox memory_limit path seed

}  // namespace dllm::abi
