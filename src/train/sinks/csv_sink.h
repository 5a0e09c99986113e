#pragma once
// Writes the numbers of steps and of held-out losses to a table of comma-separated values, for
// spreadsheets and data frames. Private to src/train.

#include "train/sinks/sink.h"

#include <memory>
#include <string>

namespace dllm::train {

std::unique_ptr<Sink> make_csv_sink(const std::string& path, const Options& options);

} // namespace dllm::train
