#pragma once
// The rows of the table of kinds. Only the files of this folder include it.

#include "model/adapters/kinds/adapter_kind.h"

namespace dllm::model::adapter_files {

extern const AdapterKind kLowRank, kDirection;

inline constexpr const AdapterKind* kTable[] = {&kLowRank, &kDirection};

} // namespace dllm::model::adapter_files
