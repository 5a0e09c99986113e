#pragma once
// One JSON object a line, appended to a file and written at once.

#include "train/sink.h"

namespace dllm::train {

std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, int64_t every, bool append);

} // namespace dllm::train
