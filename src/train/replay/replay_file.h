#pragma once
// The batches of a replay buffer in a checkpoint. Private to src/train.

#include "train/replay/replay_buffer.h"

#include <deque>
#include <string>

namespace dllm::train {

// Writes the batches to "state/replay.safetensors". Writes no file for an empty buffer.
void write_replayed(const std::deque<ReplayedBatch>& kept, const std::string& checkpoint);
// Reads them; a checkpoint without the file has none. Fails with data_loss for a damaged file.
std::deque<ReplayedBatch> read_replayed(const std::string& checkpoint);

} // namespace dllm::train
