#pragma once
// Writes the numbers of steps and of held-out losses to the event files of TensorBoard. Private to
// src/train.

#include "train/sinks/sink.h"

#include <memory>
#include <string>
#include <string_view>

namespace dllm::train {

// folder: TensorBoard's --logdir. Each sink writes a file of its own there.
std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, const Options& options);

// Returns a record of a TFRecord file: its length, a checksum, the data, a checksum.
std::string framed_record(std::string_view data);

} // namespace dllm::train
