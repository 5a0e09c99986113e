#pragma once
// Padding that an objective trains: the tokens behind a text teach where it ends. A batch may hold far more of them than of
// text, so the share is a metric.

#include "noise/objective.h"

namespace dllm::noise {

// Padding becomes part of the segment before it, and is neither given nor left out of the keys.
// Array "trained_padding" u8(batch, seq) is 1 for it.
Batch padding_trained(const Batch& batch);

// For batches of padding_trained: `feed` gets the number of targets that are padding, and the loss the part "padding_share".
void feed_padding(const Batch& prepared, Batch& feed);
void report_padding(const LossInputs& inputs, Loss& loss);

} // namespace dllm::noise
