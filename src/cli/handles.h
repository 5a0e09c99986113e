#pragma once
// The C++ headers of the library, under the names that this program uses.

#include "dllm/dllm.hpp"

namespace dllm::cli {

using Failure = dllm::api::Error;
using dllm::api::call;
using dllm::api::make;
using dllm::api::Owned;
using dllm::api::text;

}  // namespace dllm::cli
