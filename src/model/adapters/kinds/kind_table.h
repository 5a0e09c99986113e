#pragma once
// The rows of the table of kinds. Only the files of this folder include it.

#include "model/adapters/kinds/adapter_kind.h"

namespace dllm::model::adapter_files {

extern const AdapterKind kLowRank, kDirection, kIa3;

inline constexpr const AdapterKind* kTable[] = {&kLowRank, &kDirection, &kIa3};

} // namespace dllm::model::adapter_files
