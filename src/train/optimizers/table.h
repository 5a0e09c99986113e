#pragma once
// Every optimizer: a new one is its file in this folder, and its name twice here.

#include "train/optimizer.h"

namespace dllm::train::optimizer_files {

Optimizer adafactor();
Optimizer adamw();
Optimizer lion();
Optimizer muon();
Optimizer sgd();

// The first is the default.
inline constexpr Optimizer (*kTable[])() = {adamw, adafactor, lion, muon, sgd};

// Places of AdamW's scalars that Muon reads too; the order of graph::adamw_update.
enum AdamWScalar { kAdamWLr = 0, kAdamWWeightDecay = 4 };

} // namespace dllm::train::optimizer_files
