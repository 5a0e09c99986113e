#pragma once
// Appends events to a file, one JSON object per line, without buffering. Private to src/train.

#include "train/sinks/sink.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::train {

std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, const Options& options);

} // namespace dllm::train
