#pragma once
// The table of optimizers. A new one is its file in this folder, and its name twice here.

#include "train/optimizer.h"

namespace dllm::train::optimizer_files {

Optimizer adafactor();
Optimizer adamw();
Optimizer lion();
Optimizer muon();
Optimizer sgd();

// The first is the default.
inline constexpr Optimizer (*kTable[])() = {adamw, adafactor, lion, muon, sgd};

// Indices of AdamW's scalars that Muon reads too, in the order of graph::adamw_update.
enum AdamWScalar { kAdamWLr = 0, kAdamWWeightDecay = 4 };

} // namespace dllm::train::optimizer_files
