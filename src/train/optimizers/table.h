#pragma once
// Every optimizer: a new one is its file in this folder, and its name twice here.

#include "train/optimizer.h"

namespace dllm::train::optimizer_files {

Optimizer adamw();
Optimizer lion();
Optimizer sgd();

inline constexpr Optimizer (*kTable[])() = {adamw, lion, sgd}; // the first is the default

} // namespace dllm::train::optimizer_files
