#pragma once
// Padding that an objective trains: the tokens after a text teach the model where the text ends. A
// batch may hold far more padding than text, so the share of padding is a metric.

#include "noise/objective.h"

namespace dllm::noise {

// Returns the batch with padding as part of the segment before it: padding is then not given, and
// is a key. Array "trained_padding" u8(batch, seq) is 1 for padding.
Batch padding_trained(const Batch& batch);

// Report the padding of a batch of padding_trained(): `feed` gets the number of targets that are
// padding, and the loss gets the part "padding_share".
void feed_padding(const Batch& prepared, Batch& feed);
void report_padding(const LossInputs& inputs, Loss& loss);

} // namespace dllm::noise
